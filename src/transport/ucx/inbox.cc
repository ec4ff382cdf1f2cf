#include "inbox.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

namespace crossdock::transport::ucx {
namespace {

/// A peer that doesn't finish a message may send this many times the queue's limits behind it.
constexpr std::uint64_t kOverflow = 16;
/// The most that UCX keeps of a piece that isn't begun, besides one that is here already.
constexpr std::uint64_t kHeldPiece = 8 << 10;
/// Messages that UCX writes at the same time: so many, or so many bytes of them, whatever is more. They share the
/// network, so that many end late, and together; then their memory isn't in the processor's cache any more.
constexpr std::size_t kMaxReceiving = 2;
constexpr std::uint64_t kMaxReceivingBytes = 4 << 20;

const char* name_of(MessageKind kind) noexcept {
  switch (kind) {
    case MessageKind::kUntagged: return "an untagged message";
    case MessageKind::kControl: return "a control message";
    case MessageKind::kTagged: break;
  }
  return "a tagged message";
}

std::shared_ptr<std::byte> allocate(std::uint64_t size) {
  return {static_cast<std::byte*>(::operator new(size)), [](std::byte* memory) { ::operator delete(memory); }};
}

}  // namespace

template <MessageKind kKind>
void Inbox::handle() {
  worker_.handle_messages(
      static_cast<unsigned>(kKind),
      [](void* self, const void*, std::size_t, void* data, std::size_t size, const ucp_am_recv_param_t* param) {
        return on_message(self, data, size, param, kKind);
      },
      this);
}

Inbox::Inbox(WorkerHandle& worker, const ReceiveLimits& limits, const std::string& where)
    : worker_(worker), limits_(limits), where_(where) {
  handle<MessageKind::kUntagged>();
  handle<MessageKind::kControl>();
  worker_.handle_messages(kPieceId, on_piece, this);
}

ucs_status_t Inbox::on_message(void* self, void* data, std::size_t size, const ucp_am_recv_param_t* param,
                               MessageKind kind) noexcept {
  Inbox& inbox = *static_cast<Inbox*>(self);
  try {
    inbox.probe();  // tagged messages that arrived before this one
    return inbox.add(kind, data, size, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  } catch (...) {
    inbox.fail_for_current_exception();
    return UCS_OK;
  }
}

ucs_status_t Inbox::on_piece(void* self, const void* header, std::size_t header_size, void* data, std::size_t size,
                             const ucp_am_recv_param_t* param) noexcept {
  Inbox& inbox = *static_cast<Inbox*>(self);
  try {
    inbox.probe();  // tagged messages that arrived before this one
    return inbox.add_piece({static_cast<const std::byte*>(header), header_size}, data, size,
                           (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  } catch (...) {
    inbox.fail_for_current_exception();
    return UCS_OK;
  }
}

/// Changes the state of an entry, and what it counts for.
void Inbox::change(Entry& entry, Entry::State to) noexcept {
  using State = Entry::State;
  const auto is_held = [](State state) { return state == State::kWaiting || state == State::kArrived; };
  const auto is_begun = [](State state) {
    return state == State::kReceiving || state == State::kComplete || state == State::kFailed;
  };
  const State from = std::exchange(entry.state, to);
  if (is_held(from)) held_bytes_ -= entry.held_bytes;
  if (is_held(to)) held_bytes_ += entry.held_bytes;
  if (is_begun(from)) {
    --begun_;
    begun_bytes_ -= entry.size;
  }
  if (is_begun(to)) {
    ++begun_;
    begun_bytes_ += entry.size;
  }
  if (from == State::kReceiving) {
    --receiving_;
    receiving_bytes_ -= entry.size;
  }
  if (to == State::kReceiving) {
    ++receiving_;
    receiving_bytes_ += entry.size;
  }
}

/// Counts more bytes for an entry that waits.
void Inbox::hold(Entry& entry, std::uint64_t bytes) noexcept {
  entry.held_bytes += bytes;
  entry.inbox->held_bytes_ += bytes;
}

/// Returns what the call-back has to: UCS_OK drops the data.
ucs_status_t Inbox::add(MessageKind kind, void* data, std::size_t size, bool rendezvous) {
  if (!accepts(name_of(kind), size, limit_of(kind))) return UCS_OK;
  std::shared_ptr<std::byte> memory;
  if (!rendezvous && size > 0) {
    memory = allocate(size);
    std::memcpy(memory.get(), data, size);
  }
  Entry& entry = entries_.emplace_back(Entry{.kind = kind, .size = size, .inbox = this});
  if (rendezvous) {
    entry.held = data;
    entry.held_bytes = std::min<std::uint64_t>(size, kMaxEager);
    change(entry, Entry::State::kWaiting);
    return UCS_INPROGRESS;
  }
  entry.memory = std::move(memory);
  entry.held_bytes = size;
  const bool begins = begun_ + 1 == entries_.size() && has_room_for(entry);
  change(entry, begins ? Entry::State::kComplete : Entry::State::kArrived);
  return UCS_OK;
}

/// Returns what the call-back has to: UCS_OK drops the data.
ucs_status_t Inbox::add_piece(ByteSpan header, void* data, std::size_t size, bool rendezvous) {
  ByteSpan prefix = header.subspan(std::min(header.size(), PieceHead::kBytes));
  Entry* const body = body_of(header, prefix.size() + size);
  if (body == nullptr) return UCS_OK;
  if (rendezvous && unfetched_ >= limits_.queue_pieces) {
    fail(ErrorCode::kProtocol,
         where_ + " sent more than " + std::to_string(limits_.queue_pieces) + " pieces that it doesn't finish");
    return UCS_OK;
  }
  const ByteSpan rest = rendezvous ? ByteSpan() : ByteSpan(static_cast<const std::byte*>(data), size);
  if (body->memory != nullptr) {
    // Not left to place(): where this fails, it gives the piece back to UCX, which isn't allowed in this call-back.
    const std::uint64_t at = body->arrived;
    if (!put(*body, at, prefix, rest)) return UCS_OK;
    count_arrived(*body, prefix.size() + rest.size());
    wrote(*body, prefix.size() + rest.size());
    if (!rendezvous) return UCS_OK;
    prefix = {};
  }
  std::list<Piece> one;
  Piece& piece = one.emplace_back(Piece{.body = body, .offset = body->arrived, .rendezvous = rendezvous});
  piece.self = one.begin();
  piece.early.reserve(prefix.size() + rest.size());
  piece.early.assign(prefix.begin(), prefix.end());
  piece.early.insert(piece.early.end(), rest.begin(), rest.end());
  if (rendezvous) {
    piece.size = size;
    piece.held = data;
    ++unfetched_;
  }
  body->pieces.splice(body->pieces.end(), one);
  // Only now, when it needs no more memory: else the body would count as whole, and never be.
  count_arrived(*body, prefix.size() + size);
  if (body->memory != nullptr) {
    place(piece);
  } else {
    hold(*body, piece.early.size() + sizeof piece + (rendezvous ? kHeldPiece : 0));
  }
  return rendezvous ? UCS_INPROGRESS : UCS_OK;
}

/// Returns the body that a piece belongs to. Null: the piece is refused.
Inbox::Entry* Inbox::body_of(ByteSpan header, std::uint64_t length) {
  if (closed_) return nullptr;
  const bool known = header.size() >= PieceHead::kBytes && header.size() <= kMaxPieceHeader;
  const PieceHead head = known ? decode_piece_head(header) : PieceHead{};
  const bool fits = open_ == nullptr
                        ? length <= head.total
                        : head.tag == open_->tag && head.total == open_->size && length <= open_->size - open_->arrived;
  if (!known || length == 0 || !fits) {
    fail(ErrorCode::kProtocol, where_ + " sent a piece of a body that this end doesn't expect");
    return nullptr;
  }
  if (open_ != nullptr) return accepts_more() ? open_ : nullptr;
  if (!accepts("a body", head.total, limits_.max_in_pieces)) return nullptr;
  open_ =
      &entries_.emplace_back(Entry{.kind = MessageKind::kTagged, .tag = head.tag, .size = head.total, .inbox = this});
  open_->in_pieces = true;
  change(*open_, Entry::State::kWaiting);
  // So that its pieces come straight to where they belong, if there is room.
  begin_waiting();
  return closed_ ? nullptr : open_;
}

void Inbox::count_arrived(Entry& body, std::uint64_t bytes) noexcept {
  body.arrived += bytes;
  if (body.arrived == body.size) open_ = nullptr;
}

/// Copies bytes to a body's memory. Returns false if its device refuses them; then the queue ends with that error.
bool Inbox::put(Entry& body, std::uint64_t offset, ByteSpan first, ByteSpan second) noexcept {
  std::byte* const to = body.memory.get() + offset;
  if (body.on_device == nullptr) {
    std::ranges::copy(second, std::ranges::copy(first, to).out);
    return true;
  }
  try {
    // Small bytes are put together, since each write waits for the device.
    std::vector<std::byte> both;
    if (!first.empty() && !second.empty()) {
      both.reserve(first.size() + second.size());
      both.assign(first.begin(), first.end());
      both.insert(both.end(), second.begin(), second.end());
      first = both;
    } else if (first.empty()) {
      first = second;
    }
    if (!first.empty()) body.on_device->write(to, first);
    return true;
  } catch (...) {
    fail_for_current_exception();
    return false;
  }
}

/// Has a piece written to its body's memory.
void Inbox::place(Piece& piece) {
  std::byte* const to = piece.body->memory.get() + piece.offset + piece.early.size();
  if (!put(*piece.body, piece.offset, piece.early, {})) {
    if (piece.held != nullptr) worker_.api().am_data_release(worker_.get(), piece.held);
    return end_piece(piece, UCS_ERR_IO_ERROR);
  }
  if (piece.held == nullptr) return end_piece(piece, UCS_OK);
  ucp_request_param_t param = memory_params(&piece, piece.body->memory_type);
  param.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
    Piece& ended = *static_cast<Piece*>(user_data);
    const Api& api = ended.body->inbox->worker_.api();
    end_piece(ended, status);
    api.request_free(request);
  };
  const ucs_status_ptr_t result =
      worker_.api().am_recv_data_nbx(worker_.get(), std::exchange(piece.held, nullptr), to, piece.size, &param);
  if (!UCS_PTR_IS_PTR(result)) end_piece(piece, UCS_PTR_RAW_STATUS(result));
}

void Inbox::end_piece(Piece& piece, ucs_status_t status) noexcept {
  Entry& body = *piece.body;
  if (piece.rendezvous) --body.inbox->unfetched_;
  if (status == UCS_OK) {
    wrote(body, piece.early.size() + piece.size);
  } else {
    end(body, status);
  }
  body.pieces.erase(piece.self);
}

void Inbox::wrote(Entry& body, std::uint64_t bytes) noexcept {
  body.written += bytes;
  if (body.written == body.size) end(body, UCS_OK);
}

/// Takes the tagged messages that UCX has out of its queue, without their bytes.
void Inbox::probe() {
  for (;;) {
    ucp_tag_recv_info_t info{};
    if (worker_.api().tag_probe_nb(worker_.get(), 0, 0, /*remove=*/0, &info) == nullptr) return;
    if (!accepts(name_of(MessageKind::kTagged), info.length, limits_.max_tagged)) {
      // Not left there: the peer's sends would never end.
      drop_tagged(worker_.api().tag_probe_nb(worker_.get(), 0, 0, /*remove=*/1, &info));
      continue;
    }
    Entry& entry = entries_.emplace_back(
        Entry{.kind = MessageKind::kTagged, .tag = info.sender_tag, .size = info.length, .inbox = this});
    entry.held = worker_.api().tag_probe_nb(worker_.get(), 0, 0, /*remove=*/1, &info);
    // UCX doesn't tell whether it has the bytes.
    entry.held_bytes = std::min(entry.size, limits_.max_eager);
    change(entry, Entry::State::kWaiting);
  }
}

bool Inbox::accepts(const char* what, std::uint64_t size, std::uint64_t limit) {
  if (closed_) return false;
  if (size > limit) {
    fail(ErrorCode::kProtocol, where_ + " sent " + what + " of " + std::to_string(size) + " bytes; the limit here is " +
                                   std::to_string(limit));
    return false;
  }
  return accepts_more();
}

bool Inbox::accepts_more() {
  // A single message may be larger than the queue: what is begun never has more than that, or one message.
  const std::uint64_t bytes = held_bytes_ + std::min(begun_bytes_, limits_.queue_bytes);
  if (entries_.size() >= kOverflow * limits_.queue_messages ||
      bytes >= kOverflow * std::max(limits_.queue_bytes, kMaxEager)) {
    overflowed_ = true;
    fail(ErrorCode::kProtocol,
         where_ + " sent " + std::to_string(entries_.size()) + " messages behind one that it doesn't finish");
  }
  return !closed_;
}

void Inbox::collect() noexcept {
  try {
    probe();
    begin_waiting();
  } catch (...) {
    fail_for_current_exception();
  }
}

void Inbox::begin_waiting() {
  while (begun_ < entries_.size()) {
    Entry& entry = entries_[begun_];
    if (!has_room_for(entry)) return;
    if (entry.state == Entry::State::kArrived) {
      change(entry, Entry::State::kComplete);
      continue;
    }
    try {
      begin(entry);
    } catch (const Error& error) {
      return cut(error);
    }
  }
}

bool Inbox::has_room_for(const Entry& entry) const noexcept {
  if (begun_bytes_ > 0 && entry.size > limits_.queue_bytes - std::min(begun_bytes_, limits_.queue_bytes)) return false;
  return entry.state != Entry::State::kWaiting || receiving_ < kMaxReceiving ||
         (receiving_bytes_ < kMaxReceivingBytes && entry.size <= kMaxReceivingBytes - receiving_bytes_);
}

/// Begins to receive a message that UCX holds, or its pieces. Throws if there is no memory; UCX then holds it still.
void Inbox::begin(Entry& entry) {
  const bool tagged = entry.kind == MessageKind::kTagged;
  const std::shared_ptr<BodyMemory>& from = tagged && body_memory_->takes(entry.tag) ? body_memory_ : pool_;
  std::shared_ptr<std::byte> memory = from->allocate(entry.size);
  entry.memory = std::move(memory);
  if (const device::Device device = from->device(); device != device::Device{}) {
    entry.on_device = from;
    entry.memory_type = worker_.context().memory_type(device.type).value();
  }
  change(entry, Entry::State::kReceiving);
  if (!entry.in_pieces) return begin_whole(entry);
  for (auto next = entry.pieces.begin(); next != entry.pieces.end();) place(*next++);
}

void Inbox::begin_whole(Entry& entry) {
  const Api& api = worker_.api();
  const bool tagged = entry.kind == MessageKind::kTagged;
  ucp_request_param_t param = memory_params(&entry, entry.memory_type);
  void* const held = std::exchange(entry.held, nullptr);  // the call takes it, also where it fails
  ucs_status_ptr_t result = nullptr;
  if (tagged) {
    param.cb.recv = [](void* request, ucs_status_t status, const ucp_tag_recv_info_t*, void* user_data) {
      const Api& its_api = static_cast<Entry*>(user_data)->inbox->worker_.api();
      end(*static_cast<Entry*>(user_data), status);
      its_api.request_free(request);
    };
    result = api.tag_msg_recv_nbx(worker_.get(), entry.memory.get(), entry.size, static_cast<ucp_tag_message_h>(held),
                                  &param);
  } else {
    param.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
      const Api& its_api = static_cast<Entry*>(user_data)->inbox->worker_.api();
      end(*static_cast<Entry*>(user_data), status);
      its_api.request_free(request);
    };
    result = api.am_recv_data_nbx(worker_.get(), held, entry.memory.get(), entry.size, &param);
  }
  if (!UCS_PTR_IS_PTR(result)) end(entry, UCS_PTR_RAW_STATUS(result));
}

/// Only the first failure of a body's pieces counts.
void Inbox::end(Entry& entry, ucs_status_t status) noexcept {
  if (entry.state != Entry::State::kReceiving) return;
  entry.status = status;
  entry.inbox->change(entry, status == UCS_OK ? Entry::State::kComplete : Entry::State::kFailed);
}

std::optional<Received> Inbox::take() {
  if (entries_.empty() || cut_off()) {
    throw_failure();
    return std::nullopt;
  }
  Entry& entry = entries_.front();
  if (entry.state == Entry::State::kFailed) {
    if (entry.on_device != nullptr) throw_failure();
    throw ConnectionError("the connection to " + where_ +
                          " ended in the middle of a message: " + worker_.library().text(entry.status));
  }
  if (!whole(entry)) return std::nullopt;
  Received received{.kind = entry.kind,
                    .tag = entry.tag,
                    .bytes = {entry.memory.get(), entry.size},
                    .owner = std::move(entry.memory)};
  change(entry, Entry::State::kDropped);
  entries_.pop_front();
  return received;
}

std::optional<std::pair<MessageKind, std::uint64_t>> Inbox::next() const noexcept {
  if (entries_.empty() || !whole(entries_.front())) return std::nullopt;
  return {{entries_.front().kind, entries_.front().tag}};
}

bool Inbox::ready() const noexcept {
  if (entries_.empty() || cut_off()) return failure_.has_value();
  return whole(entries_.front()) || entries_.front().state == Entry::State::kFailed;
}

bool Inbox::whole(const Entry& entry) noexcept {
  return entry.state == Entry::State::kComplete || entry.state == Entry::State::kArrived;
}

/// Whether the next message isn't waited for any more: it is a body whose other pieces aren't accepted, or the peer has
/// sent too much behind it.
bool Inbox::cut_off() const noexcept {
  if (!closed_) return false;
  const Entry& next = entries_.front();
  return open_ == &next || (overflowed_ && !whole(next) && next.state != Entry::State::kFailed);
}

bool Inbox::full() const noexcept {
  return ready() && (entries_.size() >= limits_.queue_messages || begun_bytes_ + held_bytes_ >= limits_.queue_bytes);
}

void Inbox::close() noexcept {
  closed_ = true;
  for (Entry& entry : entries_) release(entry);
}

void Inbox::release(Entry& entry) noexcept {
  if (entry.state != Entry::State::kWaiting) return;
  const Api& api = worker_.api();
  void* const held = std::exchange(entry.held, nullptr);
  change(entry, Entry::State::kDropped);
  if (entry.in_pieces) {
    for (const Piece& piece : entry.pieces) {
      if (piece.held != nullptr) api.am_data_release(worker_.get(), piece.held);
    }
    return;
  }
  if (entry.kind != MessageKind::kTagged) {
    api.am_data_release(worker_.get(), held);
    return;
  }
  drop_tagged(static_cast<ucp_tag_message_h>(held));
}

/// The only way to return a tagged message is to receive it: into nothing, so it ends at once, cut off.
void Inbox::drop_tagged(ucp_tag_message_h message) noexcept {
  ucp_request_param_t param{};
  const ucs_status_ptr_t result = worker_.api().tag_msg_recv_nbx(worker_.get(), nullptr, 0, message, &param);
  if (UCS_PTR_IS_PTR(result)) worker_.api().request_free(result);
}

/// Ends the queue before the first entry that wasn't begun.
void Inbox::cut(const Error& error) {
  closed_ = true;
  for (; entries_.size() > begun_; entries_.pop_back()) {
    if (open_ == &entries_.back()) open_ = nullptr;
    release(entries_.back());
    change(entries_.back(), Entry::State::kDropped);  // also one that was here
  }
  failure_.emplace(error.code(), error.what());
}

void Inbox::throw_failure() const {
  if (failure_) throw_error(failure_->first, failure_->second);
}

void Inbox::fail(ErrorCode code, const std::string& text) {
  closed_ = true;
  if (!failure_) failure_.emplace(code, text);
}

/// For call-backs of UCX's, which nothing may be thrown through. Any exception but an Error is taken for a want of
/// memory.
void Inbox::fail_for_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    try {
      return fail(error.code(), error.what());
    } catch (...) {  // for want of memory
    }
  } catch (...) {
  }
  fail_for_memory();
}

void Inbox::fail_for_memory() noexcept {
  closed_ = true;  // also where there is no memory for the text
  try {
    fail(ErrorCode::kResource, "no memory is left for a message from " + where_);
  } catch (...) {
    if (!failure_) failure_.emplace(ErrorCode::kResource, std::string());
  }
}

std::uint64_t Inbox::limit_of(MessageKind kind) const noexcept {
  switch (kind) {
    case MessageKind::kUntagged: return limits_.max_untagged;
    case MessageKind::kControl: return limits_.max_control;
    case MessageKind::kTagged: break;
  }
  return limits_.max_tagged;
}

}  // namespace crossdock::transport::ucx
