#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

/// Base64 (RFC 4648).
namespace crossdock {

/// Returns base64 in the URL-safe alphabet and without padding.
std::string to_base64(ByteSpan bytes);

struct Base64 {
  std::vector<std::byte> bytes{};
  std::string wrong{};  ///< What is wrong with the text, in plain words; empty: nothing.
};
/// Decodes both alphabets, with or without padding.
Base64 from_base64(std::string_view text);

}  // namespace crossdock
