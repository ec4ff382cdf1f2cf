#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/bytes.h"
#include "crossdock/core/error.h"

/// What every target defines (libFuzzer's entry): 0, always. Under libFuzzer it is given bytes that it hasn't seen; in
/// the ordinary build those of the committed corpus. An Error is an answer like any other; anything else that is thrown
/// ends the program, as a broken promise does.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace crossdock::fuzz {

inline ByteSpan bytes(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

/// What must hold for whatever comes in.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Takes bytes apart from their front. What isn't there reads as 0, or as fewer bytes.
class Input {
 public:
  explicit Input(ByteSpan rest) : rest_(rest) {}
  bool empty() const noexcept { return rest_.empty(); }
  template <std::integral T>
  T number() noexcept {
    T value = 0;
    const ByteSpan from = take(sizeof value);
    if (from.size() == sizeof value) value = load_le<T>(from.data());
    return value;
  }
  ByteSpan take(std::size_t count) noexcept {
    const ByteSpan taken = rest_.first(count < rest_.size() ? count : rest_.size());
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  ByteSpan rest() noexcept { return take(rest_.size()); }

 private:
  ByteSpan rest_;
};

}  // namespace crossdock::fuzz
