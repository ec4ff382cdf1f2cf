#pragma once

#include <cstdint>

namespace crossdock {

/// The part of a stream that a connection carries ("Dissociated IPC", "Metadata and data channels"). Both channels may
/// share one connection or have one each.
enum class ChannelRole : std::uint8_t {
  kBoth,
  kMetadata,
  kData,
  kMessages,  ///< No stream: messages of equals (docs/reference/protocol-peers.md).
};

}  // namespace crossdock
