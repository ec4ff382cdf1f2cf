#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "session/flight/get_call.h"
#include "transport/transport.h"

namespace crossdock::session {

/// A call of DoGet as a connection, so that a stream goes to it as to any other consumer: it receives one request, and
/// each message and its body leave as one FlightData message. Bodies are sent from where they lie. The End of Stream
/// ends the call, and so does an error, whose text becomes the status. I/O thread only.
class GetConnection final : public transport::Connection {
 public:
  explicit GetConnection(std::shared_ptr<GetCall> call);
  ~GetConnection() override;
  GetConnection(const GetConnection&) = delete;
  GetConnection& operator=(const GetConnection&) = delete;

  const transport::Agreement& agreement() const noexcept override { return agreement_; }
  bool send(ByteSpan head, ByteSpan tail) override;
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) override;
  void cork() noexcept override { corked_ = true; }
  std::uint64_t max_message() const noexcept override;
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) override;
  std::uint64_t max_body() const noexcept override;
  std::size_t in_flight() override { return call_->queued(); }
  bool below_window(std::size_t window) override;
  std::optional<transport::Incoming> receive() override;
  void receive_into(std::shared_ptr<transport::BodyMemory>) override {}
  bool readable() const override { return !asked_ || call_->over() || call_->queued() < room_at_; }
  bool prepare_sleep() override;
  void wake() override;
  int descriptor() const noexcept override { return call_->doorbell().descriptor(); }

 private:
  bool has_room();
  void check_open() const;

  const std::shared_ptr<GetCall> call_;
  transport::Agreement agreement_;
  bool asked_ = false;       // the request was received
  bool corked_ = false;      // the next message is followed by its body
  flight::Bytes waiting_{};  // the IPC message that waits for its body
  std::size_t room_at_ = 0;  // wakes once fewer messages than this are queued
};

}  // namespace crossdock::session
