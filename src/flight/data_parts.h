#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "flight/messages.h"

namespace crossdock::flight {

/// A FlightData message that lies in parts, as gRPC gives it. Its header is copied out; the body, which may be large,
/// stays where it is until it is copied to its place.
struct DataParts {
  std::optional<FlightDescriptor> descriptor{};
  Bytes header{};  ///< An IPC Message, without the length before it; empty: none.
  Bytes app_metadata{};
  std::size_t body_at = 0;  ///< Of the whole message.
  std::size_t body_size = 0;
};
/// Throws ProtocolError as decode_data() does, of whose result this is the same, and for over 64 fields.
DataParts read_data(std::span<const ByteSpan> parts);
/// Copies `size` bytes of a message from `at` on. They are there.
void copy_out(std::span<const ByteSpan> parts, std::size_t at, std::size_t size, std::byte* to);

}  // namespace crossdock::flight
