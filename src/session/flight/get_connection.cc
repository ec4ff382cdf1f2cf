#include "session/flight/get_connection.h"

#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "device/changing_memory.h"
#include "dissociated/wire.h"
#include "flight/messages.h"
#include "flight/status.h"
#include "session/flight/message.h"
#include "transport/piece_buffer.h"

namespace crossdock::session {
namespace {

constexpr std::uint64_t kMostHeader = 64 << 20;
// With gRPC, and waiting for it: it takes the next one when the last has left.
constexpr std::size_t kMostQueued = 8;
// Of an encrypted call: bodies in files are copies.
constexpr std::size_t kMostCopied = 2;

transport::Agreement agreement_of(const GetCall& call) {
  transport::Agreement agreement;
  agreement.want_data = kRequestTag;
  agreement.error_messages = true;
  agreement.ways = transport::Way::kMessage;
  agreement.same_user = false;
  agreement.peer = "a Flight client at " + call.peer();
  agreement.carrier = "grpc";
  agreement.authenticated = call.authenticated();
  return agreement;
}

}  // namespace

GetConnection::GetConnection(std::shared_ptr<GetCall> call)
    : call_(std::move(call)), agreement_(agreement_of(*call_)) {}

// What was queued is still sent, if the end is queued too.
GetConnection::~GetConnection() {
  call_->finish({flight::StatusCode::kUnavailable, "ClosedError: the server has closed this stream"});
}

std::uint64_t GetConnection::max_message() const noexcept { return kMostHeader; }
std::uint64_t GetConnection::max_body() const noexcept { return kMostMessage - kMostHeader; }

void GetConnection::check_open() const {
  if (call_->over()) throw ConnectionError("the Flight call from " + call_->peer() + " has ended");
}

bool GetConnection::has_room() {
  const std::size_t most = call_->encrypted() ? kMostCopied : kMostQueued;
  const bool room = call_->queued() < most;
  room_at_ = room ? 0 : most;
  return room;
}

bool GetConnection::send(ByteSpan head, ByteSpan tail) {
  const bool body_follows = std::exchange(corked_, false);
  check_open();
  if (head.size() + tail.size() > kMostHeader) {
    throw InvalidArgumentError("a message of " + std::to_string(head.size() + tail.size()) +
                               " bytes of metadata is too long for Flight");
  }
  if (!has_room()) return false;
  flight::Bytes whole(head.begin(), head.end());
  whole.insert(whole.end(), tail.begin(), tail.end());
  const ByteSpan content = ByteSpan(whole).subspan(dissociated::kPrefixSize);
  switch (dissociated::read_prefix(whole).type) {
    case dissociated::MessageType::kMetadata:
      if (body_follows) {
        waiting_.assign(content.begin(), content.end());
      } else {
        call_->push({flight::encode_data_head(content, 0)});
      }
      break;
    case dissociated::MessageType::kEndOfStream: call_->finish({}); break;
    case dissociated::MessageType::kError: call_->finish(flight::status_of_text(std::string(as_text(content)))); break;
  }
  return true;
}

bool GetConnection::send_tagged(std::uint64_t, ByteSpan, ByteSpan) {
  throw std::logic_error("a Flight call has no addresses: bodies go by value");
}

bool GetConnection::send_body(std::uint64_t, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) {
  check_open();
  std::uint64_t size = 0;
  for (const ByteSpan part : parts) size += part.size();
  if (size > max_body()) {
    throw InvalidArgumentError("a batch of " + std::to_string(size) + " bytes is too long for Flight, whose limit is " +
                               std::to_string(max_body()) + ": publish smaller batches");
  }
  flight::Bytes head = flight::encode_data_head(std::exchange(waiting_, {}), size);
  // What gRPC encrypts it reads itself, and a file that became shorter would end the process there. What it doesn't
  // encrypt, the system reads.
  const auto in_file = [](ByteSpan part) { return device::in_mapped_file(part.data()); };
  if (call_->encrypted() && std::ranges::any_of(parts, in_file)) {
    std::shared_ptr<const transport::PieceBuffer> copy = transport::copy_of(parts, size);
    call_->push({std::move(head), {copy->content()}, copy});
  } else {
    call_->push({std::move(head), {parts.begin(), parts.end()}, std::move(keep)});
  }
  return true;
}

bool GetConnection::below_window(std::size_t window) {
  const bool below = call_->queued() < window;
  room_at_ = below ? 0 : window;
  return below;
}

std::optional<transport::Incoming> GetConnection::receive() {
  if (!std::exchange(asked_, true)) return transport::Incoming{true, kRequestTag, as_bytes(call_->ticket())};
  check_open();
  return std::nullopt;
}

bool GetConnection::prepare_sleep() {
  call_->doorbell().prepare_sleep();
  if (!readable()) return true;
  call_->doorbell().stay_awake();
  return false;
}

void GetConnection::wake() { call_->doorbell().woke(); }

}  // namespace crossdock::session
