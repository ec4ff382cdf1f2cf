#include "session/live_stream.h"

#include <cstring>
#include <unordered_map>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/device/region_table.h"
#include "session/check_schema.h"
#include "session/dictionary_tracker.h"

namespace crossdock::session {

namespace {

// For a source that throws an int, say.
std::exception_ptr not_an_exception() noexcept {
  try {
    return std::make_exception_ptr(RemoteError("the source threw something that is no std::exception"));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

std::shared_ptr<Puller> Puller::start(Make make, std::uint64_t lease_limit, std::size_t queue_limit,
                                      std::shared_ptr<Waker> waker, bool by_value) {
  std::shared_ptr<Puller> puller(new Puller(std::move(make), lease_limit, queue_limit, std::move(waker), by_value));
  puller->thread_ = std::thread([it = puller.get()] { it->run(); });
  return puller;
}

Puller::Puller(Make make, std::uint64_t lease_limit, std::size_t queue_limit, std::shared_ptr<Waker> waker,
               bool by_value)
    : make_(std::move(make)),
      waker_(std::move(waker)),
      pool_(lease_limit, [this] { waker_->notify(); }),
      queue_limit_(queue_limit),
      held_limit_(lease_limit),
      by_value_(by_value) {}

Puller::~Puller() {
  stop();
  join();
}

void Puller::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  room_.notify_all();
  pool_.stop();
}

void Puller::abandon() noexcept {
  stop();
  while (front() != nullptr) pop();  // what a message holds is buried, which takes the lock
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  if (ended_) pool_.clear();
}

bool Puller::wait_finished(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return room_.wait_for(lock, limit, [&] { return finished(); });
}

void Puller::join() {
  if (thread_.joinable()) thread_.join();
}

void Puller::run() noexcept {
  std::exception_ptr failure;
  try {
    // A stream that was cut short must never look like one that ended.
    if (!pull()) throw ClosedError("the server was closed");
  } catch (const std::exception&) {
    failure = std::current_exception();
  } catch (...) {
    failure = not_an_exception();
  }
  make_ = nullptr;  // the producer's last thing is dropped on this thread, which may wait for a GIL
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    ended_ = true;
    if (abandoned_) pool_.clear();
  }
  waker_->notify();
  drop_buried(true);
  {
    const std::lock_guard lock(mutex_);  // or who is about to wait misses it
    finished_.store(true, std::memory_order_release);
  }
  room_.notify_all();
  waker_->notify();
}

// Whether the source was taken to its end: false after stop().
bool Puller::pull() {
  const std::unique_ptr<array::BatchStream> stream = make_();
  if (!stream) throw RemoteError("the source made no stream");
  ipc::Encoder encoder;
  {
    Message message;
    const ByteSpan schema = encoder.schema(*stream->schema());
    message.metadata.assign(schema.begin(), schema.end());
    if (!push(std::move(message))) return false;
  }
  DictionaryTracker dictionaries;
  // Memory of the dictionaries in force, by id: a consumer keeps it until the stream's end, so it is no use to wait for
  // it.
  std::unordered_map<std::int64_t, std::uint64_t> kept_by_id;
  std::uint64_t kept = 0;
  std::int64_t bitmap_bytes = 0;
  while (std::optional<array::RecordBatch> next = stream->next()) {
    check_schema(*next, *stream->schema());
    const array::RecordBatch batch = array::normalized(*std::move(next), &bitmap_bytes, array::Offsets::kFromZero);
    bool go_on = true;
    const auto send = [&](const array::RecordBatch& values, ByteSpan metadata, std::int64_t rows) -> std::uint64_t {
      Message message;
      message.has_body = true;
      message.rows = rows;
      message.metadata.assign(metadata.begin(), metadata.end());
      go_on = go_on && place(values, kept, &message);
      const std::uint64_t size = message.block.size;
      go_on = go_on && push(std::move(message));
      return size;
    };
    dictionaries.update(batch, [&](std::int64_t id, const array::RecordBatch& given) {
      const array::RecordBatch values = array::normalized(given, &bitmap_bytes);
      std::uint64_t& before = kept_by_id[id];
      const std::uint64_t now = send(values, encoder.dictionary_batch(values, id, false), 0);
      kept += now - before;
      before = now;
    });
    send(batch, encoder.record_batch(batch), batch.num_rows);
    if (!go_on) return false;
  }
  return true;
}

// Finds the batch's bytes a place from which they can be sent. False after stop().
bool Puller::place(const array::RecordBatch& batch, std::uint64_t kept, Message* message) {
  drop_buried(false);
  std::uint64_t total = 0;
  for (const array::BufferView& buffer : batch.buffers) total += align_up(static_cast<std::uint64_t>(buffer.size), 64);
  message->buffers.resize(batch.buffers.size());
  if (by_value_) return hold(batch, total, message);
  if (total == 0) return true;
  const std::optional<RegionPool::Block> block = pool_.allocate(total, kept);
  if (!block) return false;
  if (block->size == 0) return hold(batch, total, message);
  message->block = *block;
  std::byte* const base = pool_.region(block->region)->writable();
  std::uint64_t at = block->offset;
  for (std::size_t i = 0; i < batch.buffers.size(); ++i) {
    const auto size = static_cast<std::uint64_t>(batch.buffers[i].size);
    if (size == 0) continue;
    std::memcpy(base + at, batch.buffers[i].data, size);
    message->buffers[i] = {device::make_address(static_cast<std::uint16_t>(block->region), at), size};
    message->bytes += size;
    at += align_up(size, 64);
  }
  bytes_copied_.fetch_add(message->bytes, std::memory_order_relaxed);
  return true;
}

// The batch goes by value, from where it is. As much may wait to be sent as the consumer might hold, or one batch.
bool Puller::hold(const array::RecordBatch& batch, std::uint64_t size, Message* message) {
  auto held = std::make_unique<array::RecordBatch>(batch);
  for (const array::BufferView& buffer : held->buffers) {
    const auto bytes = static_cast<std::size_t>(buffer.size);
    pack({static_cast<const std::byte*>(buffer.data), bytes}, &message->parts);
    message->bytes += bytes;
  }
  message->by_value = true;
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return stopped_ || n_held_ == 0 || held_ + size <= held_limit_; });
    if (stopped_) return false;
    buried_.reserve(buried_.size() + n_held_ + 1);  // so that bury() needs no memory
    held_ += size;
    ++n_held_;
  }
  // Where there is no memory for it, this calls the deleter: the batch is buried then, too.
  array::RecordBatch* const raw = held.release();
  message->keep = std::shared_ptr<const void>(raw, [self = shared_from_this(), raw, size](const void*) {
    self->bury(std::unique_ptr<array::RecordBatch>(raw), size);
  });
  return true;
}

void Puller::bury(std::unique_ptr<array::RecordBatch> batch, std::uint64_t size) noexcept {
  {
    const std::lock_guard lock(mutex_);
    buried_.push_back(std::move(batch));
    held_ -= size;
    --n_held_;
  }
  room_.notify_all();
}

// Drops what was sent; with `all`, waits until everything was.
void Puller::drop_buried(bool all) {
  std::vector<std::unique_ptr<array::RecordBatch>> dropped;
  std::unique_lock lock(mutex_);
  if (all) room_.wait(lock, [&] { return n_held_ == 0; });
  dropped.swap(buried_);
  if (!all) buried_.reserve(n_held_ + 1);
  lock.unlock();
}

bool Puller::push(Message message) {
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return stopped_ || queue_.size() < queue_limit_; });
    if (stopped_) {
      lock.unlock();  // dropping the message takes the lock
      return false;
    }
    queue_.push_back(std::move(message));
    queued_.store(queue_.size(), std::memory_order_release);
  }
  waker_->notify();
  return true;
}

const Puller::Message* Puller::front() {
  if (queued_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  return &queue_.front();  // a deque's push_back moves no element
}

std::shared_ptr<const void> Puller::take_keep() {
  const std::lock_guard lock(mutex_);
  return std::move(queue_.front().keep);
}

void Puller::pop() {
  Message done;  // dropped without the lock
  {
    const std::lock_guard lock(mutex_);
    done = std::move(queue_.front());
    queue_.pop_front();
    queued_.store(queue_.size(), std::memory_order_release);
  }
  room_.notify_one();
}

bool Puller::ended() {
  const std::lock_guard lock(mutex_);
  if (!ended_ || !queue_.empty()) return false;
  if (failure_) std::rethrow_exception(failure_);
  return true;
}

ServerStream::State LiveStream::peek(Outgoing* out) {
  const Puller::Message* message = puller_->front();
  if (message == nullptr) {
    if (puller_->ended()) return State::kEnd;
    return puller_->pool().starved() ? State::kStarved : State::kLater;
  }
  if (message->by_value) {
    *out = {message->metadata, true, message->buffers, 0, message->rows, message->bytes};
    out->by_value = true;
    out->parts = message->parts;
    out->keep = puller_->take_keep();
    current_by_value_ = true;
    return State::kReady;
  }
  if (!has_current_) {
    if (free_slots_.empty()) {
      free_slots_.reserve(slots_.size() + 1);  // so that returned() needs no memory
      free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    current_ = free_slots_.back();
    free_slots_.pop_back();
    Slot& slot = slots_[current_];
    slot.block = message->block;
    slot.out = 0;
    for (const dissociated::RemoteBuffer& buffer : message->buffers) slot.out += buffer.length != 0;
    has_current_ = true;
  }
  *out = {message->metadata, message->has_body, message->buffers, current_, message->rows, message->bytes};
  return State::kReady;
}

void LiveStream::pop() {
  has_current_ = false;
  if (std::exchange(current_by_value_, false)) {
    puller_->pop();
    return;
  }
  if (slots_[current_].out == 0) free_slots_.push_back(current_);
  puller_->pop();
}

const std::shared_ptr<const device::Region>& LiveStream::region(std::uint32_t index) const {
  while (regions_.size() <= index)
    regions_.push_back(puller_->pool().region(static_cast<std::uint32_t>(regions_.size())));
  return regions_[index];
}

// Leases may keep it for long yet; what was queued goes at once.
void LiveStream::over() noexcept {
  puller_->stop();
  while (puller_->front() != nullptr) puller_->pop();
}

void LiveStream::returned(std::uint32_t slot) noexcept {
  if (--slots_[slot].out != 0) return;
  puller_->pool().give_back(slots_[slot].block);
  free_slots_.push_back(slot);
}

}  // namespace crossdock::session
