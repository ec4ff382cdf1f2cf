#include "session/flight/answer_call.h"

#include "crossdock/core/error.h"
#include "flight/status.h"
#include "session/flight/offers.h"

namespace crossdock::session {

void AnswerCall::log_in(ByteSpan request) {
  try {
    flight::Service::Login login = by_.service.log_in(authorization_, request);
    push({std::move(login.payload)});
    finish({}, std::move(login.authorization));
  } catch (const std::exception& error) {
    by_.refusals.log(peer_, error);
    throw;
  }
}

void AnswerCall::answer(ByteSpan request) {
  if (method_ == flight::Method::kHandshake) {
    if (!by_.service.access().login) return log_in(request);
    by_.logins.start([self = std::static_pointer_cast<AnswerCall>(shared_from_this()),
                      message = flight::Bytes(request.begin(), request.end())] {
      try {
        self->log_in(message);
      } catch (const std::exception& error) {
        self->finish(flight::status_of(error));
      }
    });
    return;
  }
  if (method_ == flight::Method::kDoAction && act(request)) return;
  if (method_ == flight::Method::kListActions) {
    for (const flight::ActionType& type : by_.offers.actions()) push({flight::encode(type)});
  }
  for (flight::Bytes& message : by_.service.answer(method_, request)) push({std::move(message)});
  finish({});
}

/// Does one of our own actions. Returns false if it is another.
bool AnswerCall::act(ByteSpan request) {
  const flight::Action action = flight::decode_action(request);
  if (action.type == flight::kOfferAction) {
    const std::string made = by_.offers.take(peer_, flight::decode_offer(action.body));
    const ByteSpan ticket = as_bytes(made);
    push({flight::encode(flight::Result{{ticket.begin(), ticket.end()}})});
    finish({});
    return true;
  }
  if (action.type == flight::kFetchAction) {
    by_.offers.fetch(std::static_pointer_cast<AnswerCall>(shared_from_this()), peer_,
                     flight::decode_fetch_offer(action.body));
    return true;
  }
  return false;
}

void AnswerCall::on_last() {
  // A login by a header needs no message.
  if (method_ != flight::Method::kHandshake) throw ProtocolError("the call ended without a request");
  answer({});
}

}  // namespace crossdock::session
