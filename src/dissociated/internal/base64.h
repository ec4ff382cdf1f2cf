#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace crossdock::dissociated {

/// RFC 4648, section 5 (URL-safe alphabet), without padding.
std::string base64_encode(ByteSpan bytes);

/// Decodes both alphabets of RFC 4648, with or without padding. Returns nullopt if the text isn't base64; then
/// `*reason` says why.
std::optional<std::vector<std::byte>> base64_decode(std::string_view text, std::string* reason);

}  // namespace crossdock::dissociated
