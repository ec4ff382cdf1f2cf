#include "session/flight/get_call.h"

#include "crossdock/core/error.h"
#include "flight/service.h"

namespace crossdock::session {

void GetCall::on_message(std::unique_ptr<ReceivedMessage> message) {
  ticket_ = flight::bytes_in_ticket(message->request());
  check_(ticket_);
  on_ticket_(std::static_pointer_cast<GetCall>(shared_from_this()));
}

void GetCall::on_last() { throw ProtocolError("the call ended without a ticket"); }

}  // namespace crossdock::session
