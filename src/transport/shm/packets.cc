#include "packets.h"

#include <array>
#include <cstring>

#include "crossdock/core/error.h"
#include "socket.h"

namespace crossdock::transport::shm {

namespace {

constexpr std::array<char, 8> kMagic = {'X', 'D', 'O', 'C', 'K', 'S', 'H', 'M'};
constexpr std::uint32_t kHelloType = 1;
constexpr std::uint32_t kWelcomeType = 2;
constexpr std::uint32_t kRefusedType = 3;

constexpr std::size_t kOpeningBytes = 16;
constexpr std::size_t kHelloBytes = 56;
constexpr std::size_t kWelcomeBytes = 64;
constexpr std::size_t kRegionBytes = 56;

constexpr std::size_t kHelloDeviceBytes = 64;   // without the texts of the device
constexpr std::size_t kDeviceRegionBytes = 32;  // likewise, and without the handle's opaque bytes
constexpr std::size_t kMaxDeviceName = 64;

void append(ByteSpan bytes, std::vector<std::byte>* packet) {
  packet->insert(packet->end(), bytes.begin(), bytes.end());
}

/// Splits `rest` into a device's name, with these lengths, and what is left. Returns false if it is too short.
bool take(ByteSpan* rest, std::size_t driver, std::size_t identity, DeviceName* device) {
  if (driver == 0 || driver > kMaxDeviceName || identity == 0 || identity > kMaxDeviceName) return false;
  if (rest->size() < driver + identity) return false;
  device->driver = as_text(rest->first(driver));
  device->identity = as_text(rest->subspan(driver, identity));
  *rest = rest->subspan(driver + identity);
  return true;
}

std::vector<std::byte> opening(std::size_t size, std::uint32_t type) {
  std::vector<std::byte> packet(size);
  std::memcpy(packet.data(), kMagic.data(), kMagic.size());
  store_le(&packet[8], type);
  store_le(&packet[12], kProtocolVersion);
  return packet;
}

}  // namespace

std::vector<std::byte> encode(const Hello& hello) {
  std::vector<std::byte> packet = opening(kHelloBytes, kHelloType);
  store_le(&packet[16], hello.features);
  store_le(&packet[32], hello.max_message);
  store_le(&packet[40], hello.max_body);
  store_le(&packet[48], hello.role);
  store_le(&packet[52], hello.ways);
  if (hello.device) {
    packet.resize(kHelloDeviceBytes);
    store_le(&packet[56], static_cast<std::uint16_t>(hello.device->driver.size()));
    store_le(&packet[58], static_cast<std::uint16_t>(hello.device->identity.size()));
    append(as_bytes(hello.device->driver), &packet);
    append(as_bytes(hello.device->identity), &packet);
  }
  return packet;
}

std::vector<std::byte> encode(const Welcome& welcome) {
  std::vector<std::byte> packet = opening(kWelcomeBytes, kWelcomeType);
  store_le(&packet[16], welcome.features);
  store_le(&packet[24], welcome.ring_bytes);
  store_le(&packet[32], welcome.max_message);
  store_le(&packet[40], welcome.max_body);
  store_le(&packet[48], welcome.want_data);
  store_le(&packet[56], welcome.free_data);
  return packet;
}

std::vector<std::byte> encode(const Refused& refused) {
  std::vector<std::byte> packet = opening(kOpeningBytes, kRefusedType);
  append(refused, &packet);
  return packet;
}

Opening opening_of(ByteSpan packet, std::uint32_t* version) noexcept {
  if (packet.size() < kOpeningBytes || std::memcmp(packet.data(), kMagic.data(), kMagic.size()) != 0) {
    return Opening::kForeign;
  }
  *version = load_le<std::uint32_t>(&packet[12]);
  switch (load_le<std::uint32_t>(&packet[8])) {
    case kHelloType: return Opening::kHello;
    case kWelcomeType: return Opening::kWelcome;
    case kRefusedType: return Opening::kRefused;
    default: return Opening::kForeign;
  }
}

bool decode(ByteSpan packet, Hello* hello) {
  if (packet.size() < kHelloBytes) return false;
  hello->features = load_le<std::uint64_t>(&packet[16]);
  hello->max_message = load_le<std::uint64_t>(&packet[32]);
  hello->max_body = load_le<std::uint64_t>(&packet[40]);
  hello->role = load_le<std::uint32_t>(&packet[48]);
  hello->ways = load_le<std::uint32_t>(&packet[52]);
  if (packet.size() < kHelloDeviceBytes || load_le<std::uint16_t>(&packet[56]) == 0) return true;
  ByteSpan rest = packet.subspan(kHelloDeviceBytes);
  return take(&rest, load_le<std::uint16_t>(&packet[56]), load_le<std::uint16_t>(&packet[58]),
              &hello->device.emplace());
}

bool decode(ByteSpan packet, Welcome* welcome) noexcept {
  if (packet.size() < kWelcomeBytes) return false;
  welcome->features = load_le<std::uint64_t>(&packet[16]);
  welcome->ring_bytes = load_le<std::uint64_t>(&packet[24]);
  welcome->max_message = load_le<std::uint64_t>(&packet[32]);
  welcome->max_body = load_le<std::uint64_t>(&packet[40]);
  welcome->want_data = load_le<std::uint64_t>(&packet[48]);
  welcome->free_data = load_le<std::uint64_t>(&packet[56]);
  return true;
}

bool decode(ByteSpan packet, Refused* refused) { return transport::decode(packet, kOpeningBytes, refused); }

std::vector<std::byte> encode(const RegionPacket& region) {
  std::vector<std::byte> packet(kRegionBytes);
  store_le(&packet[0], kRegion);
  store_le(&packet[1], static_cast<std::uint8_t>(region.kind));
  store_le(&packet[2], region.number);
  store_le(&packet[8], region.size);
  store_le(&packet[16], region.stamp.device);
  store_le(&packet[24], region.stamp.inode);
  store_le(&packet[32], region.stamp.size);
  store_le(&packet[40], region.stamp.mtime_ns);
  store_le(&packet[48], region.stamp.ctime_ns);
  return packet;
}

bool decode(ByteSpan packet, RegionPacket* region) noexcept {
  if (packet.size() != kRegionBytes || load_le<std::uint8_t>(&packet[0]) != kRegion) return false;
  const auto kind = load_le<std::uint8_t>(&packet[1]);
  if (kind < static_cast<std::uint8_t>(device::RegionKind::kFrozen) ||
      kind > static_cast<std::uint8_t>(device::RegionKind::kFile)) {
    return false;
  }
  region->kind = static_cast<device::RegionKind>(kind);
  region->number = load_le<std::uint16_t>(&packet[2]);
  region->size = load_le<std::uint64_t>(&packet[8]);
  region->stamp = {.device = load_le<std::uint64_t>(&packet[16]),
                   .inode = load_le<std::uint64_t>(&packet[24]),
                   .size = load_le<std::int64_t>(&packet[32]),
                   .mtime_ns = load_le<std::int64_t>(&packet[40]),
                   .ctime_ns = load_le<std::int64_t>(&packet[48])};
  return true;
}

std::vector<std::byte> encode(const DeviceRegionPacket& region) {
  std::vector<std::byte> packet(kDeviceRegionBytes);
  store_le(&packet[0], kDeviceRegion);
  store_le(&packet[2], region.number);
  store_le(&packet[8], region.size);
  store_le(&packet[16], region.offset);
  store_le(&packet[24], static_cast<std::uint16_t>(region.device.driver.size()));
  store_le(&packet[26], static_cast<std::uint16_t>(region.device.identity.size()));
  append(as_bytes(region.device.driver), &packet);
  append(as_bytes(region.device.identity), &packet);
  append(region.opaque, &packet);
  if (packet.size() > kMaxPacket) {
    throw UnsupportedError("a memory handle of the " + region.device.driver + " driver has " +
                           std::to_string(region.opaque.size()) + " bytes, too many for a packet of shm");
  }
  return packet;
}

bool decode(ByteSpan packet, DeviceRegionPacket* region) {
  if (packet.size() < kDeviceRegionBytes || load_le<std::uint8_t>(&packet[0]) != kDeviceRegion) return false;
  region->number = load_le<std::uint16_t>(&packet[2]);
  region->size = load_le<std::uint64_t>(&packet[8]);
  region->offset = load_le<std::uint64_t>(&packet[16]);
  ByteSpan rest = packet.subspan(kDeviceRegionBytes);
  if (!take(&rest, load_le<std::uint16_t>(&packet[24]), load_le<std::uint16_t>(&packet[26]), &region->device)) {
    return false;
  }
  region->opaque.assign(rest.begin(), rest.end());
  return true;
}

}  // namespace crossdock::transport::shm
