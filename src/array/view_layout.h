#pragma once

#include <cstdint>

namespace crossdock::array {

/// The size of an element of a column of views, in bytes.
inline constexpr std::int64_t kViewSize = 16;
/// The most bytes of a value that its view holds itself.
inline constexpr std::int64_t kMaxInline = 12;

}  // namespace crossdock::array
