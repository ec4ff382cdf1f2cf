#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "session/flight/call.h"
#include "session/flight/doorbell.h"

namespace crossdock::session {

/// A call of DoGet: the server's I/O thread serves it, as a connection (GetConnection).
class GetCall final : public Call {
 public:
  struct Caller {
    std::string peer;
    bool encrypted = false;      ///< By the carrier.
    bool authenticated = false;  ///< The caller has proved who it is, beside its ticket.
  };
  /// `check` throws to refuse a ticket. `on_ticket` is called once, when the caller has said what it wants. Both are
  /// called on the carrier's threads.
  GetCall(std::shared_ptr<const CarrierLibrary> carrier, xd_call* call, Caller caller,
          std::function<void(std::string_view)> check, std::function<void(std::shared_ptr<GetCall>)> on_ticket)
      : Call(std::move(carrier), call),
        caller_(std::move(caller)),
        check_(std::move(check)),
        on_ticket_(std::move(on_ticket)) {}

  const std::string& peer() const noexcept { return caller_.peer; }
  bool encrypted() const noexcept { return caller_.encrypted; }
  bool authenticated() const noexcept { return caller_.authenticated; }
  /// What the caller wants. Valid once on_ticket() was called.
  const std::string& ticket() const noexcept { return ticket_; }

  /// Rung when a message has left, or the call is over.
  Doorbell& doorbell() noexcept { return doorbell_; }

 private:
  void on_message(std::unique_ptr<ReceivedMessage> message) override;
  void on_last() override;
  void on_change() noexcept override { doorbell_.ring(); }

  const Caller caller_;
  const std::function<void(std::string_view)> check_;
  std::function<void(std::shared_ptr<GetCall>)> on_ticket_;
  std::string ticket_;
  Doorbell doorbell_;
};

}  // namespace crossdock::session
