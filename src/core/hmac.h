#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "core/bytes.h"

namespace crossdock {

/// A digest of HMAC-SHA256.
using Digest = std::array<std::byte, 32>;

/// Returns the HMAC-SHA256 (RFC 2104) of the parts, one behind the other. Throws SystemError if libcrypto can't do it.
Digest hmac_sha256(std::string_view key, std::span<const ByteSpan> parts);

/// Compares in constant time.
bool same(const Digest& a, const Digest& b) noexcept;

/// Fills up to 256 bytes with the system's randomness. Throws SystemError.
void fill_random(std::span<std::byte> bytes);

}  // namespace crossdock
