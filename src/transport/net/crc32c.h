#pragma once

#include <cstdint>
#include <span>

#include "core/bytes.h"

/// CRC-32C (Castagnoli), as in RFC 3720: polynomial 0x1EDC6F41, reflected, initial value and final XOR 0xFFFFFFFF.
namespace crossdock::transport::net {

/// Returns the CRC-32C of data whose CRC-32C is `before`, followed by `bytes`. The CRC-32C of no data is 0.
/// Thread-safe.
std::uint32_t crc32c(std::uint32_t before, ByteSpan bytes) noexcept;
inline std::uint32_t crc32c(ByteSpan bytes) noexcept { return crc32c(0, bytes); }

/// An implementation.
struct Crc32cMethod {
  const char* name;
  std::uint32_t (*run)(std::uint32_t before, ByteSpan bytes) noexcept;
};

/// Returns the implementations that this processor can run, the fastest first. The last one is portable.
std::span<const Crc32cMethod> crc32c_methods() noexcept;

}  // namespace crossdock::transport::net
