#pragma once

#include <cstddef>
#include <cstdint>

namespace crossdock::array {

/// Tests whether decimals have at most a given number of digits.
class DigitLimit {
 public:
  /// `precision` is 1 to 76.
  explicit DigitLimit(std::int32_t precision) noexcept;

  /// True if the little-endian two's complement number of `width` bytes (4, 8, 16 or 32) has at most `precision`
  /// digits. `number` may have any alignment.
  bool holds(const std::byte* number, std::int32_t width) const noexcept;

 private:
  static constexpr int kWords = 4;
  std::uint64_t limit_[kWords] = {};  ///< 10 to the power of the precision, the lowest word first.
};

}  // namespace crossdock::array
