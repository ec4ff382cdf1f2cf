#include "session/flight/put_call.h"

#include "crossdock/core/error.h"
#include "flight/data_parts.h"
#include "flight/service.h"
#include "session/table_name.h"

namespace crossdock::session {
namespace {

constexpr std::size_t kMostMessages = 2;

}  // namespace

void PutCall::on_message(std::unique_ptr<ReceivedMessage> message) {
  if (!std::exchange(begun_, true)) {
    const flight::DataParts first = flight::read_data(message->parts());
    if (!first.descriptor) throw ProtocolError("the first message of DoPut has no descriptor, which names the table");
    name_ = flight::name_in(*first.descriptor);
    check_name(name_);
    only_new_ = as_text(first.app_metadata) == flight::kOnlyNew;
    on_name_(std::static_pointer_cast<PutCall>(shared_from_this()));
  }
  bool more = false;
  {
    const std::lock_guard lock(messages_mutex_);
    messages_.push_back(std::move(message));
    more = reading_ = messages_.size() < kMostMessages;
  }
  if (more) read();
  doorbell_.ring();
}

void PutCall::on_last() {
  if (!begun_) throw ProtocolError("the call ended without a table");
  {
    const std::lock_guard lock(messages_mutex_);
    last_ = true;
  }
  doorbell_.ring();
}

std::unique_ptr<ReceivedMessage> PutCall::take() {
  std::unique_ptr<ReceivedMessage> message;
  bool more = false;
  {
    const std::lock_guard lock(messages_mutex_);
    if (messages_.empty()) return nullptr;
    message = std::move(messages_.front());
    messages_.pop_front();
    more = !std::exchange(reading_, true);
  }
  if (more) read();
  return message;
}

bool PutCall::all_taken() const {
  const std::lock_guard lock(messages_mutex_);
  return last_ && messages_.empty();
}

bool PutCall::has_messages() const {
  const std::lock_guard lock(messages_mutex_);
  return !messages_.empty();
}

PutConnection::PutConnection(std::shared_ptr<PutCall> call) : call_(std::move(call)) {
  agreement_.want_data = 1;
  agreement_.ways = transport::Way::kMessage;
  agreement_.same_user = false;
  agreement_.peer = "a Flight client at " + call_->peer();
  agreement_.carrier = "grpc";
}

std::optional<transport::Incoming> PutConnection::receive() {
  if (data_.body_is_next()) return data_.next_body();
  while (std::unique_ptr<ReceivedMessage> message = call_->take()) {
    if (auto incoming = data_.take(std::move(message))) return incoming;
  }
  if (ended_) return std::nullopt;
  if (call_->over())
    throw ConnectionError("the Flight client at " + call_->peer() + " has gone in the middle of DoPut");
  if (!call_->all_taken()) return std::nullopt;
  // An answer leaves only to a client that is there.
  if (!std::exchange(asked_, true)) call_->push({flight::encode(flight::PutResult{})});
  if (call_->queued() > 0) return std::nullopt;
  if (call_->over())
    throw ConnectionError("the Flight client at " + call_->peer() + " has gone in the middle of DoPut");
  ended_ = true;
  return data_.end_of_stream();
}

bool PutConnection::readable() const {
  if (data_.body_is_next() || call_->has_messages() || call_->over()) return true;
  return !ended_ && call_->all_taken() && (!asked_ || call_->queued() == 0);
}

bool PutConnection::prepare_sleep() {
  call_->doorbell().prepare_sleep();
  if (!readable()) return true;
  call_->doorbell().stay_awake();
  return false;
}

}  // namespace crossdock::session
