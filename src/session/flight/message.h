#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "flight/messages.h"
#include "session/flight/carrier_library.h"

/// Messages of a call, in parts: none is copied into one piece without need.
namespace crossdock::session {

/// gRPC's and Flight's limit of one message, in bytes.
inline constexpr std::uint64_t kMostMessage = std::numeric_limits<std::int32_t>::max();
/// The tag of a request, where a call stands for a connection.
inline constexpr std::uint64_t kRequestTag = 1;
/// The longest request of a client: it has a name or a ticket. Tables that clients send have longer messages.
inline constexpr std::size_t kMostRequest = 1 << 20;

inline std::string_view text_of(xd_bytes bytes) noexcept { return {static_cast<const char*>(bytes.data), bytes.size}; }
inline xd_bytes bytes_of(std::string_view text) noexcept { return {text.data(), text.size()}; }

/// A message to send: a head of its own, and parts that `keep` keeps until they are sent. `keep` is dropped on any
/// thread.
struct OutgoingMessage {
  flight::Bytes head;
  std::vector<ByteSpan> parts{};
  std::shared_ptr<const void> keep{};
};

/// Passes a message to the carrier. The call must have no other message under way.
void write(const CarrierLibrary& carrier, xd_call* call, OutgoingMessage message);

/// A message that was received, in the parts in which it came. Holds them.
class ReceivedMessage {
 public:
  ReceivedMessage(const CarrierLibrary& carrier, const xd_bytes* parts, std::size_t n_parts, xd_message* held);
  ~ReceivedMessage();
  ReceivedMessage(const ReceivedMessage&) = delete;
  ReceivedMessage& operator=(const ReceivedMessage&) = delete;

  std::span<const ByteSpan> parts() const noexcept { return parts_; }
  std::size_t size() const noexcept { return size_; }
  /// Returns the message in one piece.
  flight::Bytes whole() const;
  /// The same for a message that is a request of a client. Throws ResourceError if it is longer than kMostRequest.
  flight::Bytes request() const;

 private:
  const CarrierLibrary& carrier_;  // never unloaded
  xd_message* const held_;
  std::vector<ByteSpan> parts_;
  std::size_t size_ = 0;
};

}  // namespace crossdock::session
