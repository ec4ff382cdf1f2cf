#include "inbox.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace crossdock::transport::ucx {
namespace {

/// Messages below this size may lie in UCX's memory whole, whatever the version.
constexpr std::uint64_t kMaxEager = 1 << 20;
/// A peer that doesn't finish a message may send this many times the queue's limits behind it.
constexpr std::uint64_t kOverflow = 16;

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
}

ucs_status_t Inbox::on_message(void* self, void* data, std::size_t size, const ucp_am_recv_param_t* param,
                               MessageKind kind) noexcept {
  Inbox& inbox = *static_cast<Inbox*>(self);
  try {
    inbox.probe();  // tagged messages that arrived before this one
    return inbox.add(kind, data, size, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  } catch (const std::bad_alloc&) {
    inbox.fail_for_memory();
    return UCS_OK;
  }
}

/// Returns what the call-back has to: UCS_OK drops the data.
ucs_status_t Inbox::add(MessageKind kind, void* data, std::size_t size, bool rendezvous) {
  if (!accepts(kind, size)) return UCS_OK;
  if (rendezvous) {
    Entry& entry = entries_.emplace_back(Entry{kind, Entry::State::kWaiting});
    entry.size = size;
    entry.held = data;
    held_bytes_ += std::min<std::uint64_t>(size, kMaxEager);
    return UCS_INPROGRESS;
  }
  std::shared_ptr<std::byte> memory;
  if (size > 0) {
    memory = allocate(size);
    std::memcpy(memory.get(), data, size);
  }
  // An entry behind one that waits counts as begun once that one is.
  const bool next = begun_ == entries_.size();
  entries_.push_back({.kind = kind, .state = Entry::State::kComplete, .size = size, .memory = std::move(memory)});
  if (next) ++begun_;
  (next ? begun_bytes_ : held_bytes_) += size;
  return UCS_OK;
}

/// Takes the tagged messages that UCX has out of its queue, without their bytes.
void Inbox::probe() {
  for (;;) {
    ucp_tag_recv_info_t info{};
    const ucp_tag_message_h found = worker_.api().tag_probe_nb(worker_.get(), 0, 0, /*remove=*/0, &info);
    if (found == nullptr || !accepts(MessageKind::kTagged, info.length)) return;
    entries_.push_back({.kind = MessageKind::kTagged, .state = Entry::State::kWaiting});
    Entry& entry = entries_.back();
    entry.held = worker_.api().tag_probe_nb(worker_.get(), 0, 0, /*remove=*/1, &info);
    entry.tag = info.sender_tag;
    entry.size = info.length;
    held_bytes_ += std::min<std::uint64_t>(entry.size, kMaxEager);
  }
}

bool Inbox::accepts(MessageKind kind, std::uint64_t size) {
  if (closed_) return false;
  if (size > limit_of(kind)) {
    fail(ErrorCode::kProtocol, where_ + " sent " + name_of(kind) + " of " + std::to_string(size) +
                                   " bytes; the limit here is " + std::to_string(limit_of(kind)));
  } else if (entries_.size() >= kOverflow * limits_.queue_messages ||
             held_bytes_ >= kOverflow * std::max(limits_.queue_bytes, kMaxEager)) {
    fail(ErrorCode::kProtocol,
         where_ + " sent " + std::to_string(entries_.size()) + " messages behind one that it doesn't finish");
  }
  return !closed_;
}

void Inbox::collect() noexcept {
  try {
    probe();
    begin_waiting();
  } catch (const std::bad_alloc&) {
    fail_for_memory();
  }
}

void Inbox::begin_waiting() {
  for (; begun_ < entries_.size(); ++begun_) {
    Entry& entry = entries_[begun_];
    if (begun_bytes_ > 0 && entry.size > limits_.queue_bytes - std::min(begun_bytes_, limits_.queue_bytes)) return;
    const bool waiting = entry.state == Entry::State::kWaiting;
    try {
      if (waiting) begin(entry);
    } catch (const Error& error) {
      return cut(error);
    }
    held_bytes_ -= waiting ? std::min<std::uint64_t>(entry.size, kMaxEager) : entry.size;
    begun_bytes_ += entry.size;
  }
}

/// Begins to receive a message that UCX holds. Throws if there is no memory; UCX then holds it still.
void Inbox::begin(Entry& entry) {
  const Api& api = worker_.api();
  const bool tagged = entry.kind == MessageKind::kTagged;
  std::shared_ptr<std::byte> memory = (tagged ? body_memory_ : pool_)->allocate(entry.size);
  entry.memory = std::move(memory);
  entry.api = &api;
  entry.state = Entry::State::kReceiving;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.datatype = ucp_dt_make_contig(1);
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.user_data = &entry;
  void* const held = std::exchange(entry.held, nullptr);  // the call takes it, also where it fails
  ucs_status_ptr_t result = nullptr;
  if (tagged) {
    param.cb.recv = [](void* request, ucs_status_t status, const ucp_tag_recv_info_t*, void* user_data) {
      end(*static_cast<Entry*>(user_data), request, status);
    };
    result = api.tag_msg_recv_nbx(worker_.get(), entry.memory.get(), entry.size, static_cast<ucp_tag_message_h>(held),
                                  &param);
  } else {
    param.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
      end(*static_cast<Entry*>(user_data), request, status);
    };
    result = api.am_recv_data_nbx(worker_.get(), held, entry.memory.get(), entry.size, &param);
  }
  if (!UCS_PTR_IS_PTR(result)) end(entry, nullptr, UCS_PTR_RAW_STATUS(result));
}

void Inbox::end(Entry& entry, void* request, ucs_status_t status) noexcept {
  entry.status = status;
  entry.state = status == UCS_OK ? Entry::State::kComplete : Entry::State::kFailed;
  if (request != nullptr) entry.api->request_free(request);
}

std::optional<Received> Inbox::take() {
  if (entries_.empty()) {
    if (failure_) throw_error(failure_->first, failure_->second);
    return std::nullopt;
  }
  Entry& entry = entries_.front();
  if (entry.state == Entry::State::kFailed) {
    throw ConnectionError("the connection to " + where_ +
                          " ended in the middle of a message: " + worker_.library().text(entry.status));
  }
  if (entry.state != Entry::State::kComplete) return std::nullopt;
  Received received{.kind = entry.kind,
                    .tag = entry.tag,
                    .bytes = {entry.memory.get(), entry.size},
                    .owner = std::move(entry.memory)};
  if (begun_ > 0) {
    --begun_;
    begun_bytes_ -= entry.size;
  } else {
    held_bytes_ -= entry.size;
  }
  entries_.pop_front();
  return received;
}

std::optional<std::pair<MessageKind, std::uint64_t>> Inbox::next() const noexcept {
  if (entries_.empty() || entries_.front().state != Entry::State::kComplete) return std::nullopt;
  return {{entries_.front().kind, entries_.front().tag}};
}

bool Inbox::ready() const noexcept {
  if (entries_.empty()) return failure_.has_value();
  const Entry::State state = entries_.front().state;
  return state == Entry::State::kComplete || state == Entry::State::kFailed;
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
  entry.state = Entry::State::kFailed;
  entry.status = UCS_ERR_CANCELED;
  if (entry.kind != MessageKind::kTagged) {
    api.am_data_release(worker_.get(), held);
    return;
  }
  // The only way to return a tagged message is to receive it: into nothing, so it ends at once, cut off.
  ucp_request_param_t param{};
  const ucs_status_ptr_t result =
      api.tag_msg_recv_nbx(worker_.get(), nullptr, 0, static_cast<ucp_tag_message_h>(held), &param);
  if (UCS_PTR_IS_PTR(result)) api.request_free(result);
}

/// Ends the queue before the first entry that wasn't begun.
void Inbox::cut(const Error& error) {
  closed_ = true;
  for (; entries_.size() > begun_; entries_.pop_back()) release(entries_.back());
  held_bytes_ = 0;
  failure_.emplace(error.code(), error.what());
}

void Inbox::fail(ErrorCode code, const std::string& text) {
  closed_ = true;
  if (!failure_) failure_.emplace(code, text);
}

void Inbox::fail_for_memory() noexcept {
  try {
    fail(ErrorCode::kResource, "no memory is left for a message from " + where_);
  } catch (const std::bad_alloc&) {
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
