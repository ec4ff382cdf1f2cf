#include "array/internal/digits.h"

#include "core/bytes.h"

namespace crossdock::array {
namespace {

constexpr std::uint64_t kLowHalf = 0xffffffffu;

}  // namespace

DigitLimit::DigitLimit(std::int32_t precision) noexcept {
  limit_[0] = 1;
  for (std::int32_t digit = 0; digit < precision; ++digit) {
    std::uint64_t carry = 0;
    for (std::uint64_t& word : limit_) {
      // Multiplies by half words, so that nothing overflows. 10^76 is less than 2^255: the last carry is 0.
      const std::uint64_t low = (word & kLowHalf) * 10 + carry;
      const std::uint64_t high = (word >> 32) * 10 + (low >> 32);
      word = (high << 32) | (low & kLowHalf);
      carry = high >> 32;
    }
  }
}

bool DigitLimit::holds(const std::byte* number, std::int32_t width) const noexcept {
  std::uint64_t words[kWords];
  const int n = width <= 8 ? 1 : width / 8;
  if (width == 4) {
    words[0] = static_cast<std::uint64_t>(std::int64_t{load_le<std::int32_t>(number)});
  } else {
    for (int i = 0; i < n; ++i) words[i] = load_le<std::uint64_t>(number + std::ptrdiff_t{i} * 8);
  }
  const std::uint64_t sign = static_cast<std::int64_t>(words[n - 1]) < 0 ? ~std::uint64_t{0} : 0;
  std::uint64_t carry = sign & 1;
  for (int i = 0; i < n; ++i) {
    words[i] = (words[i] ^ sign) + carry;
    carry = carry != 0 && words[i] == 0 ? 1 : 0;
  }
  // If a higher word of the limit is set, every value of this width is below the limit.
  for (int i = kWords - 1; i >= n; --i) {
    if (limit_[i] != 0) return true;
  }
  for (int i = n - 1; i >= 0; --i) {
    if (words[i] != limit_[i]) return words[i] < limit_[i];
  }
  return false;  // the limit itself has one digit more
}

}  // namespace crossdock::array
