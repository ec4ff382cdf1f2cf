#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "session/flight/call.h"
#include "session/flight/data_receiver.h"
#include "session/flight/doorbell.h"
#include "transport/transport.h"

namespace crossdock::session {

/// A call of DoPut: a client sends a table. Two messages at most wait here, so that a client is held back while the
/// table is made.
class PutCall final : public Call {
 public:
  /// `on_name` is called once, with the first message, on the carrier's thread. It throws to refuse the call.
  PutCall(std::shared_ptr<const CarrierLibrary> carrier, xd_call* call, std::string peer,
          std::function<void(std::shared_ptr<PutCall>)> on_name)
      : Call(std::move(carrier), call), peer_(std::move(peer)), on_name_(std::move(on_name)) {}

  const std::string& peer() const noexcept { return peer_; }
  /// What the client calls the table, and whether it mustn't replace another one. Valid once on_name() was called.
  const std::string& name() const noexcept { return name_; }
  bool only_new() const noexcept { return only_new_; }

  /// Returns the next message, or null.
  std::unique_ptr<ReceivedMessage> take();
  /// Whether all messages were taken, and the client has sent its last.
  bool all_taken() const;
  bool has_messages() const;
  Doorbell& doorbell() noexcept { return doorbell_; }

 private:
  void on_message(std::unique_ptr<ReceivedMessage> message) override;
  void on_last() override;
  void on_change() noexcept override { doorbell_.ring(); }

  const std::string peer_;
  std::function<void(std::shared_ptr<PutCall>)> on_name_;
  std::string name_;
  bool only_new_ = false;
  bool begun_ = false;
  Doorbell doorbell_;
  mutable std::mutex messages_mutex_;
  std::deque<std::unique_ptr<ReceivedMessage>> messages_;
  bool reading_ = true;  // the first message is asked for by the server
  bool last_ = false;
};

/// The call as a connection from which a Reader reads the table. The End of Stream comes only when the client is sure
/// to be there still: a client that was killed seems to have sent its last message, too.
class PutConnection final : public transport::Connection {
 public:
  explicit PutConnection(std::shared_ptr<PutCall> call);

  const transport::Agreement& agreement() const noexcept override { return agreement_; }
  /// A reader's own messages go nowhere.
  bool send(ByteSpan, ByteSpan) override { return true; }
  bool send_tagged(std::uint64_t, ByteSpan, ByteSpan) override { return true; }
  std::uint64_t max_message() const noexcept override { return 1 << 20; }
  bool send_body(std::uint64_t, std::span<const ByteSpan>, std::shared_ptr<const void>) override { return true; }
  std::uint64_t max_body() const noexcept override { return 0; }
  std::size_t in_flight() override { return 0; }
  bool below_window(std::size_t) override { return true; }

  std::optional<transport::Incoming> receive() override;
  void receive_into(std::shared_ptr<transport::BodyMemory> memory) override { data_.receive_into(std::move(memory)); }
  bool readable() const override;
  bool prepare_sleep() override;
  void wake() override { call_->doorbell().woke(); }
  int descriptor() const noexcept override { return call_->doorbell().descriptor(); }

 private:
  const std::shared_ptr<PutCall> call_;
  transport::Agreement agreement_;
  DataReceiver data_;
  bool asked_ = false;  // whether the client is there
  bool ended_ = false;
};

}  // namespace crossdock::session
