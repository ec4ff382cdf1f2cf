#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "core/bytes.h"
#include "core/hmac.h"

/// Proofs that an end knows the token, without sending it.
namespace crossdock::transport::net {

using Nonce = std::array<std::byte, 32>;
using Proof = Digest;

/// Returns random bytes that were never used before. Throws SystemError.
Nonce make_nonce();

/// Returns the HMAC-SHA256 with the token as its key, over `role` and the records of the handshake so far. Throws
/// SystemError.
Proof prove(std::string_view token, std::string_view role, std::span<const ByteSpan> records);

}  // namespace crossdock::transport::net
