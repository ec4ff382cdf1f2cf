#pragma once

#include <cstdint>

namespace crossdock::exchange {

/// Returns the handle of a stream that a protocol shows as an integer.
inline void* stream_handle(std::int64_t number) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(number));
}

}  // namespace crossdock::exchange
