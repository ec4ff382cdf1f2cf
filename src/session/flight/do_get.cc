#include "session/flight/do_get.h"

#include <stdexcept>
#include <utility>

#include "session/flight/message.h"

namespace crossdock::session {
namespace {

transport::Agreement agreement_of(const FlightChannel& channel) {
  transport::Agreement agreement;
  agreement.want_data = kRequestTag;
  agreement.error_messages = true;
  agreement.cancel = true;
  agreement.ways = transport::Way::kMessage;
  agreement.same_user = false;
  agreement.peer = channel.where();
  agreement.carrier = "grpc";
  return agreement;
}

}  // namespace

DoGetConnection::DoGetConnection(std::shared_ptr<FlightChannel> channel)
    : channel_(std::move(channel)), agreement_(agreement_of(*channel_)) {}

DoGetConnection::~DoGetConnection() {
  if (call_) call_->cancel();
}

std::uint64_t DoGetConnection::max_message() const noexcept { return 1 << 20; }

bool DoGetConnection::send(ByteSpan, ByteSpan) {
  if (call_) call_->cancel();
  return true;
}

bool DoGetConnection::send_tagged(std::uint64_t, ByteSpan head, ByteSpan tail) {
  flight::Ticket ticket{{head.begin(), head.end()}};
  ticket.ticket.insert(ticket.ticket.end(), tail.begin(), tail.end());
  data_.begin();
  call_ = OutgoingCall::start(channel_, "DoGet", {flight::encode(ticket)}, false,
                              [doorbell = doorbell_] { doorbell->ring(); });
  return true;
}

bool DoGetConnection::send_body(std::uint64_t, std::span<const ByteSpan>, std::shared_ptr<const void>) {
  throw std::logic_error("a client sends no bodies by DoGet");
}

std::optional<transport::Incoming> DoGetConnection::receive() {
  if (data_.body_is_next()) return data_.next_body();
  while (call_) {
    if (std::unique_ptr<ReceivedMessage> message = call_->take()) {
      if (auto incoming = data_.take(std::move(message))) return incoming;
      continue;
    }
    const std::optional<flight::Status> status = call_->over();
    if (!status) return std::nullopt;
    call_.reset();
    if (status->code == flight::StatusCode::kOk) return data_.end_of_stream();
    if (status->code == flight::StatusCode::kUnavailable) throw_status(*status, channel_->where());
    return data_.error(text_of(*status));
  }
  return std::nullopt;
}

bool DoGetConnection::readable() const { return data_.body_is_next() || (call_ && call_->has_news()); }

bool DoGetConnection::prepare_sleep() {
  doorbell_->prepare_sleep();
  if (!readable()) return true;
  doorbell_->stay_awake();
  return false;
}

}  // namespace crossdock::session
