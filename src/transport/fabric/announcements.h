#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"

/// The payloads of the frames that announce what comes beside the link. docs/reference/protocol-fabric.md specifies
/// them.
namespace crossdock::transport::fabric {

/// A body: messages of libfabric with the tags `first_tag`, `first_tag` + 1, ..., whose bytes follow each other.
struct BodyAnnouncement {
  std::uint64_t size = 0;
  std::uint64_t first_tag = 0;
  std::vector<std::uint64_t> lengths;  ///< Of the messages.
};

/// A region that the peer may read.
struct RegionAnnouncement {
  std::uint64_t size = 0;
  std::uint64_t start = 0;  ///< The address of its first byte, as reads name it.
  std::uint64_t key = 0;
};

std::vector<std::byte> encode(const BodyAnnouncement& body);
std::vector<std::byte> encode(const RegionAnnouncement& region);
/// Returns false if the payload is malformed: too short, or with messages that are empty or don't add up to the body.
[[nodiscard]] bool decode(ByteSpan payload, BodyAnnouncement* body);
[[nodiscard]] bool decode(ByteSpan payload, RegionAnnouncement* region);

}  // namespace crossdock::transport::fabric
