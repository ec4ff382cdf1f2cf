#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Returns the value of a key, or null. The first one, if the key occurs twice.
inline const std::string* find_value(const Metadata& metadata, std::string_view key) noexcept {
  const auto found = std::ranges::find(metadata, key, [](const auto& pair) { return std::string_view(pair.first); });
  return found == metadata.end() ? nullptr : &found->second;
}

}  // namespace crossdock::array
