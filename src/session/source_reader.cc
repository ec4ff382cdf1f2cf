#include "session/source_reader.h"

#include <cstring>
#include <utility>

#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "session/source_batch.h"

namespace crossdock::session {
namespace {

// Never throws: without memory, it returns the error that says so.
template <typename E>
std::exception_ptr made(const char* what) noexcept {
  try {
    return std::make_exception_ptr(E(what));
  } catch (...) {
    return std::current_exception();
  }
}

std::uint64_t body_size(const array::RecordBatch& batch) noexcept {
  std::uint64_t size = 0;
  for (const array::BufferView& buffer : batch.buffers) size += align_up(static_cast<std::uint64_t>(buffer.size), 64);
  return size;
}

// A truncated stream must never look like one that ended.
std::exception_ptr closed_error() noexcept { return made<ClosedError>("the server was closed"); }

}  // namespace

std::shared_ptr<SourceReader> SourceReader::start(Options options) {
  std::shared_ptr<SourceReader> reader(new SourceReader(std::move(options)));
  reader->sources_.start(reader, reader->consumer_->lane());
  return reader;
}

SourceReader::SourceReader(Options options)
    : make_(std::move(options.make)),
      consumer_(options.counted->consumer()),
      sources_(consumer_->sources()),
      waker_(std::move(options.waker)),
      bytes_copied_(std::move(options.bytes_copied)),
      runtime_(std::move(options.runtime)),
      queue_limit_(options.queue_limit),
      by_value_(options.by_value),
      pool_(consumer_),
      counted_(std::move(options.counted)) {}

// --- the source's side ---

SourceTask::Next SourceReader::step() noexcept {
  begun_.store(true, std::memory_order_relaxed);
  if (!over_) {
    std::exception_ptr failure;
    try {
      if (stopped()) std::rethrow_exception(closed_error());
      const Progress progress = advance();
      if (progress != Progress::kEnd) return progress == Progress::kOn ? Next::kAgain : Next::kWait;
    } catch (const std::exception&) {
      failure = std::current_exception();
    } catch (...) {
      failure = made<RemoteError>("the source threw an object that isn't a std::exception");
    }
    end(std::move(failure));
  }
  if (!release_deferred()) return Next::kWait;  // the last of them wakes this task
  stop_counting();
  waker_->notify();
  return Next::kDone;
}

bool SourceReader::stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_ || sources_.closed();
}

SourceReader::Progress SourceReader::advance() {
  release_deferred();
  if (pending_.empty() && !fetch()) return Progress::kEnd;
  while (!pending_.empty()) {
    Pending& next = pending_.front();
    if (!next.placed && !prepare_body(&next)) return Progress::kNoRoom;
    if (!push(&next.message)) return Progress::kNoRoom;
    pending_.pop_front();
  }
  return Progress::kOn;
}

// Calls the producer once. Returns false at the end of the stream.
bool SourceReader::fetch() {
  if (!stream_) {
    open();
    return true;
  }
  std::optional<array::RecordBatch> next = stream_->next();
  if (!next) return false;
  check_announced(*next, *stream_);
  array::RecordBatch batch = *std::move(next);
  const bool on_host = wait_on_host(&batch, *runtime_, exchange::wait_in_driver);
  std::int64_t ignored = 0;  // how much was copied
  if (on_host) {
    batch = array::normalized(std::move(batch), &ignored, array::Offsets::kFromZero);
  } else {
    check_structure(batch);
  }
  const auto add = [&](array::RecordBatch rows, std::optional<std::int64_t> dictionary) {
    Pending& pending = add_pending(rows.num_rows, dictionary);
    if (on_host) {
      encode(&pending, std::move(rows));
    } else {
      pending.copy = plan_copy(std::move(rows), *runtime_);
    }
  };
  dictionaries_.update(batch, [&](std::int64_t id, const array::RecordBatch& given) {
    add(on_host ? array::normalized(given, &ignored) : given, id);
  });
  add(std::move(batch), std::nullopt);
  return true;
}

void SourceReader::open() {
  stream_ = (*make_)();
  if (!stream_ || !stream_->schema()) throw RemoteError("the source made no stream, or one without a schema");
  const ByteSpan schema = encoder_.schema(*stream_->schema());
  Pending& first = pending_.emplace_back();
  first.message.metadata.assign(schema.begin(), schema.end());
  first.placed = true;
}

SourceReader::Pending& SourceReader::add_pending(std::int64_t rows, std::optional<std::int64_t> dictionary) {
  Pending& pending = pending_.emplace_back();
  pending.message.has_body = true;
  pending.message.rows = dictionary ? 0 : rows;
  pending.dictionary = dictionary;
  return pending;
}

// Stores a batch in normal form, with its metadata.
void SourceReader::encode(Pending* pending, array::RecordBatch batch) {
  const ByteSpan metadata = pending->dictionary ? encoder_.dictionary_batch(batch, *pending->dictionary, false)
                                                : encoder_.record_batch(batch);
  pending->message.metadata.assign(metadata.begin(), metadata.end());
  pending->batch = std::move(batch);
}

// Makes the copy of a batch on a device, in `memory`. Waits for it.
void SourceReader::copy_from_device(Pending* pending, std::byte* memory, const std::shared_ptr<const void>& owner) {
  std::uint64_t copied = 0;
  std::int64_t ignored = 0;
  exchange::BatchCopy copy = *std::exchange(pending->copy, std::nullopt);
  encode(pending, copied_to(std::move(copy), memory, owner, exchange::wait_in_driver, &copied, &ignored));
  bytes_copied_->fetch_add(copied, std::memory_order_relaxed);
}

// Allocates memory for the batch and copies it there, or prepares it to be sent by value. Returns false if there is no
// room yet.
bool SourceReader::prepare_body(Pending* pending) {
  Message* const message = &pending->message;
  const std::uint64_t total = pending->copy ? pending->copy->bytes() : body_size(pending->batch);
  message->by_value = false;  // an earlier try may have set it
  message->parts.clear();
  message->bytes = 0;
  bool by_value = by_value_ || pending->in_heap;
  if (!by_value && total > 0) {
    const std::optional<RegionPool::Block> block = pool_.allocate(total, kept_);
    if (!block) {
      waker_->notify();  // the I/O thread may be asleep, and must watch a deadline from now on
      return false;
    }
    by_value = block->size == 0;
    message->block = *block;
  }
  if (pending->copy && message->block.size == 0) {
    const std::shared_ptr<std::byte[]> memory(new std::byte[total]);
    copy_from_device(pending, memory.get(), memory);
    pending->in_heap = true;
  }
  message->buffers.assign(pending->batch.buffers.size(), {});
  if (by_value && !prepare_by_value(pending->batch, body_size(pending->batch), message)) return false;
  pending->placed = true;
  if (message->block.size > 0) {
    // stop() may drop the region meanwhile: then no consumer reads this copy.
    if (const auto region = pool_.region(message->block.region)) copy_into(pending, region);
  }
  if (pending->dictionary) {
    RegionPool::Block& before = kept_by_id_[*pending->dictionary];
    kept_.bytes += message->block.size - before.size;
    kept_.blocks += static_cast<std::uint64_t>(message->block.size > 0) - static_cast<std::uint64_t>(before.size > 0);
    before = message->block;
  }
  return true;
}

void SourceReader::copy_into(Pending* pending, const std::shared_ptr<device::Region>& region) {
  Message* const message = &pending->message;
  std::byte* const base = region->writable();
  std::uint64_t at = message->block.offset;
  const bool from_device = pending->copy.has_value();
  if (from_device) copy_from_device(pending, base + at, region);
  message->buffers.resize(pending->batch.buffers.size());
  for (std::size_t i = 0; i < message->buffers.size(); ++i) {
    const array::BufferView& buffer = pending->batch.buffers[i];
    const auto size = static_cast<std::uint64_t>(buffer.size);
    if (size == 0) continue;
    if (from_device) {
      at = static_cast<std::uint64_t>(static_cast<const std::byte*>(buffer.data) - base);
    } else {
      std::memcpy(base + at, buffer.data, size);
    }
    message->buffers[i] = {device::make_address(static_cast<std::uint16_t>(message->block.region), at), size};
    message->bytes += size;
    at += align_up(size, 64);
  }
  if (!from_device) bytes_copied_->fetch_add(message->bytes, std::memory_order_relaxed);
}

// Prepares a batch to be sent by value, from its own memory. Batches of one consumer that wait to be sent are limited
// to as many bytes as it may lease; one batch per stream may always wait. Returns false if the batch must wait before
// this.
bool SourceReader::prepare_by_value(const array::RecordBatch& batch, std::uint64_t size, Message* message) {
  auto held = std::make_unique<ValueBatch>(ValueBatch{.batch = batch, .size = size});
  for (const array::BufferView& buffer : held->batch.buffers) {
    const auto bytes = static_cast<std::size_t>(buffer.size);
    pack({static_cast<const std::byte*>(buffer.data), bytes}, &message->parts);
    message->bytes += bytes;
  }
  message->by_value = true;
  {
    const std::lock_guard lock(mutex_);
    if (!consumer_->waiting().take(size)) {
      if (n_unsent_values_ > 0) return false;
      consumer_->waiting().take_beyond(size);
    }
    ++n_unsent_values_;
  }
  // If there is no memory for this, it calls the deleter: then too, the batch is put into `deferred_`.
  ValueBatch* const raw = held.release();
  auto self = std::static_pointer_cast<SourceReader>(shared_from_this());
  message->keep = std::shared_ptr<const void>(
      raw, [self = std::move(self), raw](const void*) { self->defer_release(std::unique_ptr<ValueBatch>(raw)); });
  return true;
}

void SourceReader::defer_release(std::unique_ptr<ValueBatch> held) noexcept {
  const std::uint64_t size = held->size;
  {
    const std::lock_guard lock(mutex_);
    held->next = std::move(deferred_);
    deferred_ = std::move(held);
    --n_unsent_values_;
  }
  consumer_->give_waiting(size);  // this wakes the waiting source, too
}

// Drops batches that were sent. Returns true if no batch is left to be sent.
bool SourceReader::release_deferred() {
  std::unique_ptr<ValueBatch> dropped;
  bool all = false;
  {
    const std::lock_guard lock(mutex_);
    dropped = std::move(deferred_);
    all = n_unsent_values_ == 0;
  }
  while (dropped) dropped = std::move(dropped->next);
  return all;
}

// Returns false if the queue is full.
bool SourceReader::push(Message* message) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;  // the next step ends the source
    if (queue_.size() >= queue_limit_) {
      wants_room_ = true;
      return false;
    }
    queue_.push_back(std::move(*message));
    queued_.store(queue_.size(), std::memory_order_release);
  }
  waker_->notify();
  return true;
}

void SourceReader::end(std::exception_ptr failure) noexcept {
  over_ = true;
  // The last objects of the producer are dropped on this thread, which may wait for a GIL.
  for (const Pending& pending : pending_) {
    if (pending.placed && pending.message.block.size > 0) pool_.free(pending.message.block);
  }
  pending_.clear();
  dictionaries_ = {};
  stream_.reset();
  make_.reset();
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    ended_ = true;
  }
  waker_->notify();
}

// Stops counting the source.
void SourceReader::stop_counting() noexcept {
  std::shared_ptr<const CountedStream> counted;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  if (counted_as_abandoned_) consumer_->count_abandoned(-1);
  counted_as_abandoned_ = false;
  counted = std::move(counted_);
}

// --- the connection's side ---

void SourceReader::stop() noexcept {
  if (sources_.cancel(*this)) {
    end(closed_error());
    stop_counting();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (!ended_ && !counted_as_abandoned_) {
      counted_as_abandoned_ = true;
      consumer_->count_abandoned(1);
    }
  }
  pool_.stop();
  drop_queue();
  sources_.wake(*this);
}

void SourceReader::abandon() noexcept {
  stop();
  pool_.clear();
}

// Empties the queue. After stop(), no message is added to it.
void SourceReader::drop_queue() noexcept {
  while (const Message* const message = front()) {
    if (message->block.size > 0) pool_.free(message->block);
    pop();
  }
}

void SourceReader::check_begins() const { sources_.check_begins(*this); }

const SourceReader::Message* SourceReader::front() {
  if (queued_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  return &queue_.front();  // push_back() of a deque moves no element
}

std::shared_ptr<const void> SourceReader::take_keep() {
  const std::lock_guard lock(mutex_);
  return std::move(queue_.front().keep);
}

void SourceReader::pop() {
  Message done;  // dropped without the lock
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    done = std::move(queue_.front());
    queue_.pop_front();
    queued_.store(queue_.size(), std::memory_order_release);
    // A source that waits for room continues once half of the queue is free.
    if (wants_room_ && queue_.size() <= queue_limit_ / 2) {
      wants_room_ = false;
      wake = true;
    }
  }
  if (wake) sources_.wake(*this);
}

bool SourceReader::ended() {
  const std::lock_guard lock(mutex_);
  if (!ended_ || !queue_.empty()) return false;
  if (failure_) std::rethrow_exception(failure_);
  return true;
}

void SourceReader::free(const RegionPool::Block& block) noexcept {
  if (pool_.free(block)) sources_.wake(*this);
}

void SourceReader::pass_by_value() noexcept {
  if (!pool_.starved()) return;
  pool_.pass_by_value();
  sources_.wake(*this);
}

}  // namespace crossdock::session
