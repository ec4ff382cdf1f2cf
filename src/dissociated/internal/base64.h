#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crossdock::dissociated {

/// Decodes both alphabets of RFC 4648, with or without padding. Returns nullopt if the text isn't base64; then
/// `*reason` says why.
std::optional<std::vector<std::byte>> base64_decode(std::string_view text, std::string* reason);

}  // namespace crossdock::dissociated
