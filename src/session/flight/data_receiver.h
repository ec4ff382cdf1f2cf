#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "dissociated/wire.h"
#include "session/flight/message.h"
#include "transport/transport.h"

namespace crossdock::session {

/// Makes the messages of the Dissociated IPC Protocol from FlightData, as a connection's receive() returns them: a
/// header is a message, and its body the next one. A body is copied once, from the carrier's memory to the memory for
/// bodies. One thread at a time.
class DataReceiver {
 public:
  DataReceiver();
  void receive_into(std::shared_ptr<transport::BodyMemory> memory);
  /// A stream begins.
  void begin() noexcept { sequence_ = 0; }
  /// Whether next_body() has a body.
  bool body_is_next() const noexcept { return with_body_ != nullptr; }
  std::optional<transport::Incoming> next_body();
  /// Takes a FlightData; call it only when no body is next. Returns nothing for one without a header. Throws
  /// ProtocolError, InvalidDataError.
  std::optional<transport::Incoming> take(std::unique_ptr<ReceivedMessage> message);
  transport::Incoming end_of_stream();
  transport::Incoming error(std::string_view text);

 private:
  transport::Incoming message(dissociated::MessageType type, ByteSpan content);
  bool has_body(ByteSpan header);

  const std::shared_ptr<transport::BodyMemory> pool_;
  std::shared_ptr<transport::BodyMemory> memory_;
  std::unique_ptr<ReceivedMessage> with_body_;  // its metadata was returned, and its body is next
  std::size_t body_at_ = 0;
  std::size_t body_size_ = 0;
  std::uint32_t sequence_ = 0;   // of the next message
  flight::Bytes current_{};      // what was returned last
  flight::Bytes last_header_{};  // of a message with a body: others are often equal
};

}  // namespace crossdock::session
