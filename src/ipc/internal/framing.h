#pragma once

#include <cstdint>
#include <string_view>

namespace crossdock::ipc {

/// The text at both ends of an Arrow IPC file.
inline constexpr std::string_view kMagic = "ARROW1";
/// The word in front of the length of a message.
inline constexpr std::int32_t kContinuation = -1;

}  // namespace crossdock::ipc
