#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crossdock/core/bytes.h"
#include "crossdock/device/region.h"

/// The packets on the control socket, in bytes: the handshake's three, then doorbells and regions. All integers are
/// little-endian. docs/protocol-shm.md is their specification.
namespace crossdock::transport::shm {

inline constexpr std::uint32_t kProtocolVersion = 2;

// Feature bits: each end offers its own; a feature is used when both offered it.
inline constexpr std::uint64_t kFeatureBarriers = 1;       ///< Registered for expedited barriers.
inline constexpr std::uint64_t kFeatureErrorMessages = 2;  ///< Knows message type 255.
inline constexpr std::uint64_t kFeatureCountedLeases = 4;  ///< A client: frees each address as often as it was sent.
inline constexpr std::uint64_t kFeatureCancel = 8;         ///< Knows an End of Stream from the client.
/// A server: takes a region back as soon as no stream under way and no lease names it. A client: knows that.
inline constexpr std::uint64_t kFeatureRetiresAtRest = 16;

/// Client's opening.
struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::uint64_t features = 0;
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::uint32_t role = 0;  ///< As ChannelRole counts.
};

/// Server's consent, with the descriptors of the rings that it has made: its own, then the client's.
struct Welcome {
  std::uint32_t version = kProtocolVersion;
  std::uint64_t features = 0;
  std::uint64_t ring_bytes = 0;  ///< Of each of the two.
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
};

enum class Refusal : std::uint32_t {
  kOtherVersion = 1,  ///< No common version.
  kUser = 2,          ///< This user may not connect.
  kMalformed = 3,     ///< The opening breaks the rules.
  kResources = 4,     ///< The server has no descriptors or memory left, or clients enough.
};

/// Server's refusal; the socket is closed after it.
struct Refused {
  std::uint32_t version = kProtocolVersion;
  Refusal code = Refusal::kMalformed;
  std::string reason;  ///< UTF-8, cut off at 400 bytes.
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Refused& refused);

enum class Opening : std::uint8_t { kHello, kWelcome, kRefused, kForeign };

/// What a packet of the handshake is. kForeign: not ours. Whatever follows the version differs between versions: check
/// that first.
Opening opening_of(ByteSpan packet, std::uint32_t* version) noexcept;

/// False: too short. Bytes beyond those known are ignored: later minor additions go there.
[[nodiscard]] bool decode(ByteSpan packet, Hello* hello) noexcept;
[[nodiscard]] bool decode(ByteSpan packet, Welcome* welcome) noexcept;
[[nodiscard]] bool decode(ByteSpan packet, Refused* refused);

// After the handshake, the first byte says which packet it is.
inline constexpr std::uint8_t kDoorbell = 1;  ///< One byte: look at the rings.
inline constexpr std::uint8_t kRegion = 2;    ///< A region and its descriptor.

struct RegionPacket {
  std::uint16_t number = 0;
  device::RegionKind kind = device::RegionKind::kFrozen;
  std::uint64_t size = 0;
  device::FileStamp stamp = {};
};

std::vector<std::byte> encode(const RegionPacket& region);
/// False: the length or a field is wrong.
[[nodiscard]] bool decode(ByteSpan packet, RegionPacket* region) noexcept;

}  // namespace crossdock::transport::shm
