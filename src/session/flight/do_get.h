#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "session/flight/channel.h"
#include "session/flight/data_receiver.h"
#include "session/flight/doorbell.h"
#include "session/flight/outgoing_call.h"
#include "transport/transport.h"

namespace crossdock::session {

/// A client's end of DoGet as a connection, so that a Reader reads it as any other stream: the request of a stream
/// starts a call, each FlightData is a message and its body, the end of the call is the End of Stream, and its error
/// the error message. A body is copied once, from gRPC's memory to the memory for bodies.
class DoGetConnection final : public transport::Connection {
 public:
  explicit DoGetConnection(std::shared_ptr<FlightChannel> channel);
  ~DoGetConnection() override;
  DoGetConnection(const DoGetConnection&) = delete;
  DoGetConnection& operator=(const DoGetConnection&) = delete;

  const transport::Agreement& agreement() const noexcept override { return agreement_; }
  /// Cancels the stream: a client sends no other untagged message.
  bool send(ByteSpan head, ByteSpan tail) override;
  /// Requests a stream: `head` is its ticket.
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) override;
  std::uint64_t max_message() const noexcept override;
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) override;
  std::uint64_t max_body() const noexcept override { return 0; }
  std::size_t in_flight() override { return 0; }
  bool below_window(std::size_t) override { return true; }

  std::optional<transport::Incoming> receive() override;
  void receive_into(std::shared_ptr<transport::BodyMemory> memory) override { data_.receive_into(std::move(memory)); }
  bool readable() const override;
  bool prepare_sleep() override;
  void wake() override { doorbell_->woke(); }
  int descriptor() const noexcept override { return doorbell_->descriptor(); }

 private:
  const std::shared_ptr<FlightChannel> channel_;
  transport::Agreement agreement_;
  const std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();  // also of the call's threads
  DataReceiver data_;
  std::shared_ptr<OutgoingCall> call_;  // null between streams
};

}  // namespace crossdock::session
