#pragma once

#include <cstdint>

namespace crossdock::device {

/// A local address of a published table, and an address on shm: the region's number in the top 16 bits, the offset in
/// the region in the low 48.
inline constexpr int kOffsetBits = 48;
/// The first offset that is used in a region: address 0 means that there is no buffer.
inline constexpr std::uint64_t kRegionStart = 64;
constexpr std::uint64_t make_address(std::uint16_t region, std::uint64_t offset) noexcept {
  return (static_cast<std::uint64_t>(region) << kOffsetBits) | offset;
}
constexpr std::uint16_t address_region(std::uint64_t address) noexcept {
  return static_cast<std::uint16_t>(address >> kOffsetBits);
}
constexpr std::uint64_t address_offset(std::uint64_t address) noexcept {
  return address & ((std::uint64_t{1} << kOffsetBits) - 1);
}

}  // namespace crossdock::device
