#pragma once

#include <memory>
#include <string>
#include <utility>

#include "flight/service.h"
#include "session/flight/call.h"
#include "session/flight/call_threads.h"
#include "session/flight/refusals.h"

namespace crossdock::session {

class Offers;

/// A call of one request, which flight::Service answers.
class AnswerCall final : public Call {
 public:
  /// What answers. They outlive the calls of their server.
  struct Answerers {
    const flight::Service& service;
    CallThreads& logins;  ///< For those that may wait.
    Offers& offers;
    Refusals& refusals;
  };
  AnswerCall(std::shared_ptr<const CarrierLibrary> carrier, xd_call* call, Answerers by, flight::Method method,
             std::string peer, std::string authorization) noexcept
      : Call(std::move(carrier), call),
        by_(by),
        method_(method),
        peer_(std::move(peer)),
        authorization_(std::move(authorization)) {}

 private:
  void on_message(std::unique_ptr<ReceivedMessage> message) override { answer(message->request()); }
  void on_last() override;
  void answer(ByteSpan request);
  void log_in(ByteSpan request);
  bool act(ByteSpan request);

  const Answerers by_;
  const flight::Method method_;
  const std::string peer_;
  const std::string authorization_;
};

}  // namespace crossdock::session
