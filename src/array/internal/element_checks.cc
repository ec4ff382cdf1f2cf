#include "array/internal/element_checks.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/bytes.h"

namespace crossdock::array {
namespace {

// An error shows as a sign bit, collected with `or`: the sign of a negative number, or of a negative difference. A
// difference of non-negative numbers can't wrap; if a number is negative, its own sign is set already. So no error is
// lost by wrapping.

template <typename T>
T at(const std::byte* numbers, std::int64_t i) noexcept {
  return load_le<T>(numbers + i * static_cast<std::int64_t>(sizeof(T)));
}

/// Computes in integers of the same width: for signed types, and for types of 64 bits.
template <typename Int>
bool are_below_signed(const std::byte* numbers, std::int64_t n, std::int64_t limit) noexcept {
  using Unsigned = std::make_unsigned_t<Int>;
  if (limit == 0) return n == 0;
  const auto last = static_cast<Unsigned>(std::min<std::int64_t>(limit - 1, std::numeric_limits<Int>::max()));
  Unsigned signs = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto number = at<Unsigned>(numbers, i);
    signs = static_cast<Unsigned>(signs | number | static_cast<Unsigned>(last - number));
  }
  return static_cast<Int>(signs) >= 0;
}

template <typename Unsigned>
bool are_below_unsigned(const std::byte* numbers, std::int64_t n, std::int64_t limit) noexcept {
  Unsigned most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, at<Unsigned>(numbers, i));
  return n == 0 || static_cast<std::int64_t>(most) < limit;
}

template <typename Int>
bool are_ends(const std::byte* ends, std::int64_t n) noexcept {
  std::int64_t before = 0;
  std::int64_t signs = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t end = at<Int>(ends, i);
    signs |= end | static_cast<std::int64_t>(static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(before) - 1);
    before = end;
  }
  return signs >= 0;
}

}  // namespace

template <typename Int>
bool are_ordered(const std::byte* numbers, std::int64_t n) noexcept {
  using Unsigned = std::make_unsigned_t<Int>;
  if (n == 0) return true;
  Unsigned signs = at<Unsigned>(numbers, 0);
  for (std::int64_t i = 1; i < n; ++i) {
    const auto number = at<Unsigned>(numbers, i);
    signs |= number | (number - at<Unsigned>(numbers, i - 1));
  }
  return static_cast<Int>(signs) >= 0;
}
template bool are_ordered<std::int32_t>(const std::byte*, std::int64_t) noexcept;
template bool are_ordered<std::int64_t>(const std::byte*, std::int64_t) noexcept;

bool are_below(TypeId type, const std::byte* numbers, std::int64_t n, std::int64_t limit) noexcept {
  switch (type) {
    case TypeId::kInt8: return are_below_signed<std::int8_t>(numbers, n, limit);
    case TypeId::kInt16: return are_below_signed<std::int16_t>(numbers, n, limit);
    case TypeId::kInt32: return are_below_signed<std::int32_t>(numbers, n, limit);
    case TypeId::kUInt8: return are_below_unsigned<std::uint8_t>(numbers, n, limit);
    case TypeId::kUInt16: return are_below_unsigned<std::uint16_t>(numbers, n, limit);
    case TypeId::kUInt32: return are_below_unsigned<std::uint32_t>(numbers, n, limit);
    default: return are_below_signed<std::int64_t>(numbers, n, limit);  // unsigned: the upper half is over any limit
  }
}

bool are_multiples64(const std::byte* numbers, std::int64_t n, std::int64_t of) noexcept {
  std::int64_t rests = 0;
  for (std::int64_t i = 0; i < n; ++i) rests |= at<std::int64_t>(numbers, i) % of;
  return rests == 0;
}

bool are_run_ends(TypeId type, const std::byte* ends, std::int64_t n) noexcept {
  switch (type) {
    case TypeId::kInt16: return are_ends<std::int16_t>(ends, n);
    case TypeId::kInt32: return are_ends<std::int32_t>(ends, n);
    default: return are_ends<std::int64_t>(ends, n);
  }
}

template <typename Int>
bool are_lists(const std::byte* offsets, const std::byte* sizes, std::int64_t n, std::int64_t length) noexcept {
  const auto end = static_cast<std::uint64_t>(length);
  std::uint64_t signs = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto offset = static_cast<std::uint64_t>(static_cast<std::int64_t>(at<Int>(offsets, i)));
    const auto size = static_cast<std::uint64_t>(static_cast<std::int64_t>(at<Int>(sizes, i)));
    signs |= offset | size | (end - offset) | (end - offset - size);
  }
  return static_cast<std::int64_t>(signs) >= 0;
}
template bool are_lists<std::int32_t>(const std::byte*, const std::byte*, std::int64_t, std::int64_t) noexcept;
template bool are_lists<std::int64_t>(const std::byte*, const std::byte*, std::int64_t, std::int64_t) noexcept;

}  // namespace crossdock::array
