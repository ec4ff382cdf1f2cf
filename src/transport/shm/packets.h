#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "device/region.h"
#include "transport/internal/handshake.h"

/// The packets on the control socket, in bytes: three for the handshake, then doorbells and regions. All integers are
/// little-endian. docs/reference/protocol-shm.md is the specification.
namespace crossdock::transport::shm {

inline constexpr std::uint32_t kProtocolVersion = 2;

// Feature bits: each end offers its own; a feature is used when both offered it.
inline constexpr std::uint64_t kFeatureBarriers = 1;       ///< Registered for expedited barriers.
inline constexpr std::uint64_t kFeatureErrorMessages = 2;  ///< Knows message type 255.
inline constexpr std::uint64_t kFeatureCountedLeases = 4;  ///< A client: frees each address as often as it was sent.
inline constexpr std::uint64_t kFeatureCancel = 8;         ///< Knows an End of Stream that is sent by the client.
/// A server: takes a region back as soon as no stream under way and no lease names it. A client: relies on that.
inline constexpr std::uint64_t kFeatureRetiresAtRest = 16;
inline constexpr std::uint64_t kFeatureParameters = 32;  ///< Knows requests with parameters.

/// The client's first packet.
struct Hello {
  std::uint64_t features = 0;
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::uint32_t role = 0;  ///< The number of a ChannelRole.
  std::uint32_t ways = 0;  ///< Bits of the Ways that the client accepts; 0: of a client from before them.
  std::optional<DeviceName> device{};
};

/// The server's acceptance, with the descriptors of the rings that it has made: its own, then the client's.
struct Welcome {
  std::uint64_t features = 0;
  std::uint64_t ring_bytes = 0;  ///< Of each of the two rings.
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Refused& refused);

enum class Opening : std::uint8_t { kHello, kWelcome, kRefused, kForeign };

/// The type of a handshake packet. kForeign: not a packet of this protocol. The content after the version depends on
/// the version: check that first.
Opening opening_of(ByteSpan packet, std::uint32_t* version) noexcept;

/// Returns false if the packet is too short. Additional bytes are ignored: later minor versions may append fields.
[[nodiscard]] bool decode(ByteSpan packet, Hello* hello);
[[nodiscard]] bool decode(ByteSpan packet, Welcome* welcome) noexcept;
[[nodiscard]] bool decode(ByteSpan packet, Refused* refused);

// After the handshake, the first byte is the packet's type.
inline constexpr std::uint8_t kDoorbell = 1;      ///< One byte: tells the peer to check the rings.
inline constexpr std::uint8_t kRegion = 2;        ///< A region of host memory and its descriptor.
inline constexpr std::uint8_t kDeviceRegion = 3;  ///< A region of a device's memory: its driver's handle.

struct RegionPacket {
  std::uint16_t number = 0;
  device::RegionKind kind = device::RegionKind::kFrozen;
  std::uint64_t size = 0;
  device::FileStamp stamp = {};
};

std::vector<std::byte> encode(const RegionPacket& region);
/// Returns false if the length or a field is wrong.
[[nodiscard]] bool decode(ByteSpan packet, RegionPacket* region) noexcept;

struct DeviceRegionPacket {
  std::uint16_t number = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  ///< MemoryHandle::offset.
  DeviceName device;
  std::vector<std::byte> opaque{};  ///< MemoryHandle::opaque.
};

/// Throws UnsupportedError if the handle is too long for a packet.
std::vector<std::byte> encode(const DeviceRegionPacket& region);
/// Returns false if the length or a field is wrong.
[[nodiscard]] bool decode(ByteSpan packet, DeviceRegionPacket* region);

}  // namespace crossdock::transport::shm
