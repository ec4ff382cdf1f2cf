#include "array/bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "array/internal/bits.h"
#include "core/text.h"

namespace crossdock::array {
namespace {

/// Elements whose validity is one word.
constexpr std::int64_t kBlock = 64;

/// The validity of up to 64 elements; those behind the last are null.
std::uint64_t validity_word(const std::byte* validity, std::int64_t n) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, validity, static_cast<std::size_t>(bytes_for_bits(n)));
  return n == kBlock ? word : word & ((std::uint64_t{1} << n) - 1);
}

/// Calls all(first, n) for parts without nulls, and one(i) for single elements beside nulls.
template <typename All, typename One>
void for_each_valid(const std::byte* validity, std::int64_t n, All all, One one) {
  if (validity == nullptr) return all(std::int64_t{0}, n);
  for (std::int64_t at = 0; at < n; at += kBlock) {
    const std::int64_t count = std::min(kBlock, n - at);
    std::uint64_t word = validity_word(validity + at / 8, count);
    if (std::popcount(word) == count) {
      all(at, count);
      continue;
    }
    for (; word != 0; word &= word - 1) one(at + std::countr_zero(word));
  }
}

/// Numbers whose order is that of floats, with -0.0 below 0.0, and NaNs below and above all others.
template <std::signed_integral Bits>
Bits key_of(Bits bits) noexcept {
  const Bits negative = bits >> (8 * sizeof(Bits) - 1);
  return bits ^ (negative & std::numeric_limits<Bits>::max());
}

/// Elements that are one number each.
template <std::integral Stored, typename Value = Stored>
class NumberFinder final : public BoundsFinder {
  static constexpr bool kFloat = std::is_floating_point_v<Value>;

 public:
  void add(const std::byte* values, const std::byte* validity, std::int64_t n) override {
    for_each_valid(
        validity, n, [&](std::int64_t first, std::int64_t count) { add_all(values + first * kSize, count); },
        [&](std::int64_t i) { add_all(values + i * kSize, 1); });
  }
  void add(std::string_view) override { throw std::logic_error("a number was given as a text"); }

  std::optional<Bounds> finish() override {
    if (min_ > max_) return std::nullopt;
    if constexpr (kFloat) {
      const auto lowest = std::bit_cast<Value>(key_of(min_));  // a key's key is the number
      const auto highest = std::bit_cast<Value>(key_of(max_));
      if (std::isnan(lowest) || std::isnan(highest)) return std::nullopt;
      return Bounds{bytes_of(lowest == 0 ? -Value{0} : lowest), bytes_of(highest == 0 ? Value{0} : highest)};
    } else {
      return Bounds{bytes_of(min_), bytes_of(max_)};
    }
  }

 private:
  static constexpr std::int64_t kSize = sizeof(Stored);

  void add_all(const std::byte* values, std::int64_t n) noexcept {
    Stored min = min_;
    Stored max = max_;
    for (std::int64_t i = 0; i < n; ++i) {
      auto value = load_le<Stored>(values + i * kSize);
      if constexpr (kFloat) value = key_of(value);
      min = value < min ? value : min;
      max = value > max ? value : max;
    }
    min_ = min;
    max_ = max;
  }
  template <typename T>
  static std::string bytes_of(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  Stored min_ = std::numeric_limits<Stored>::max();
  Stored max_ = std::numeric_limits<Stored>::min();
  static_assert(sizeof(Stored) == sizeof(Value));
};

/// Decimals of several words, the lowest first, of which the highest has the sign.
template <std::size_t Words>
class DecimalFinder final : public BoundsFinder {
 public:
  void add(const std::byte* values, const std::byte* validity, std::int64_t n) override {
    const auto add_one = [&](std::int64_t i) {
      Number number;
      std::memcpy(number.data(), values + i * kSize, kSize);
      if (!any_ || below(number, min_)) min_ = number;
      if (!any_ || below(max_, number)) max_ = number;
      any_ = true;
    };
    for_each_valid(
        validity, n,
        [&](std::int64_t first, std::int64_t count) {
          for (std::int64_t i = first; i < first + count; ++i) add_one(i);
        },
        add_one);
  }
  void add(std::string_view) override { throw std::logic_error("a decimal was given as a text"); }
  std::optional<Bounds> finish() override {
    if (!any_) return std::nullopt;
    return Bounds{bytes_of(min_), bytes_of(max_)};
  }

 private:
  using Number = std::array<std::uint64_t, Words>;
  static constexpr std::int64_t kSize = sizeof(Number);

  static bool below(const Number& a, const Number& b) noexcept {
    const auto high_a = static_cast<std::int64_t>(a.back());
    const auto high_b = static_cast<std::int64_t>(b.back());
    if (high_a != high_b) return high_a < high_b;
    return std::lexicographical_compare(a.rbegin() + 1, a.rend(), b.rbegin() + 1, b.rend());
  }
  static std::string bytes_of(const Number& number) { return {reinterpret_cast<const char*>(number.data()), kSize}; }

  bool any_ = false;
  Number min_{};
  Number max_{};
};

class BoolFinder final : public BoundsFinder {
 public:
  void add(const std::byte* values, const std::byte* validity, std::int64_t n) override {
    for (std::int64_t at = 0; at < n; at += kBlock) {
      const std::int64_t count = std::min(kBlock, n - at);
      const std::uint64_t all = count == kBlock ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
      const std::uint64_t valid = validity == nullptr ? all : validity_word(validity + at / 8, count);
      const std::uint64_t bits = validity_word(values + at / 8, count);
      any_true_ |= (bits & valid) != 0;
      any_false_ |= (~bits & valid) != 0;
    }
  }
  void add(std::string_view) override { throw std::logic_error("a bool was given as a text"); }
  std::optional<Bounds> finish() override {
    if (!any_true_ && !any_false_) return std::nullopt;
    return Bounds{std::string(1, any_false_ ? '\0' : '\1'), std::string(1, any_true_ ? '\1' : '\0')};
  }

 private:
  bool any_true_ = false;
  bool any_false_ = false;
};

class TextFinder final : public BoundsFinder {
 public:
  explicit TextFinder(bool utf8) noexcept : utf8_(utf8) {}
  void add(const std::byte*, const std::byte*, std::int64_t) override {
    throw std::logic_error("a text was given as elements of fixed width");
  }
  void add(std::string_view text) override {
    // More of it would change no bound.
    const std::string_view compared = text.substr(0, kMostTextRead);
    if (!any_ || compared < min_) min_ = compared;
    if (!any_ || compared > max_) max_ = compared;
    any_ = true;
  }
  std::optional<Bounds> finish() override {
    if (!any_) return std::nullopt;
    std::string min = lower_bound_of(min_, utf8_);
    std::optional<std::string> max = upper_bound_of(max_, utf8_);
    // Batches needn't be checked in full before they are published.
    if (!max || (utf8_ && !(is_utf8(min) && is_utf8(*max)))) return std::nullopt;
    return Bounds{std::move(min), *std::move(max)};
  }

 private:
  const bool utf8_;
  bool any_ = false;
  std::string min_;
  std::string max_;
};

bool continues(char byte) noexcept { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// The longest beginning that has room, and doesn't cut a character.
std::string_view beginning_of(std::string_view text, bool utf8) noexcept {
  std::size_t size = std::min(text.size(), kMostBoundText);
  while (utf8 && size > 0 && size < text.size() && continues(text[size])) --size;
  return text.substr(0, size);
}

/// The character behind this one, in UTF-8; nothing behind the last one.
std::optional<std::string> next_character(std::string_view character) {
  std::uint32_t code = static_cast<unsigned char>(character.front());
  if (character.size() > 1) code &= 0x7Fu >> character.size();
  for (const char byte : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(byte) & 0x3Fu);
  ++code;
  if (code == 0xD800) code = 0xE000;  // surrogates are no characters
  if (code > 0x10FFFF) return std::nullopt;
  const std::size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  if (size == 1) return std::string(1, static_cast<char>(code));
  std::string bytes(size, '\0');
  for (std::size_t i = size; i-- > 1; code >>= 6) bytes[i] = static_cast<char>(0x80u | (code & 0x3Fu));
  bytes[0] = static_cast<char>((0xF00u >> size & 0xFFu) | code);
  return bytes;
}

}  // namespace

std::string lower_bound_of(std::string_view text, bool utf8) { return std::string(beginning_of(text, utf8)); }

std::optional<std::string> upper_bound_of(std::string_view text, bool utf8) {
  if (text.size() <= kMostBoundText) return std::string(text);
  std::string bound(beginning_of(text, utf8));
  if (utf8 && !is_utf8(bound)) return std::nullopt;
  while (!bound.empty()) {
    std::size_t last = bound.size() - 1;
    while (utf8 && last > 0 && continues(bound[last])) --last;
    const std::string character = bound.substr(last);
    bound.resize(last);
    if (utf8) {
      if (const auto next = next_character(character); next && last + next->size() <= kMostBoundText) {
        return bound + *next;
      }
    } else if (character != "\xFF") {
      return bound + static_cast<char>(static_cast<unsigned char>(character.front()) + 1);
    }
  }
  return std::nullopt;
}

bool BoundsFinder::exist_for(const Field& field) noexcept {
  if (field.dictionary) return false;
  switch (field.type.id) {
    case TypeId::kBool:
    case TypeId::kInt8:
    case TypeId::kInt16:
    case TypeId::kInt32:
    case TypeId::kInt64:
    case TypeId::kUInt8:
    case TypeId::kUInt16:
    case TypeId::kUInt32:
    case TypeId::kUInt64:
    case TypeId::kFloat32:
    case TypeId::kFloat64:
    case TypeId::kDecimal32:
    case TypeId::kDecimal64:
    case TypeId::kDecimal128:
    case TypeId::kDecimal256:
    case TypeId::kDate32:
    case TypeId::kDate64:
    case TypeId::kTime32:
    case TypeId::kTime64:
    case TypeId::kTimestamp:
    case TypeId::kDuration:
    case TypeId::kUtf8:
    case TypeId::kLargeUtf8:
    case TypeId::kBinary:
    case TypeId::kLargeBinary:
    case TypeId::kUtf8View:
    case TypeId::kBinaryView: return true;
    default: return false;
  }
}

std::unique_ptr<BoundsFinder> BoundsFinder::make(const Field& field) {
  switch (field.type.id) {
    case TypeId::kBool: return std::make_unique<BoolFinder>();
    case TypeId::kInt8: return std::make_unique<NumberFinder<std::int8_t>>();
    case TypeId::kInt16: return std::make_unique<NumberFinder<std::int16_t>>();
    case TypeId::kUInt8: return std::make_unique<NumberFinder<std::uint8_t>>();
    case TypeId::kUInt16: return std::make_unique<NumberFinder<std::uint16_t>>();
    case TypeId::kUInt32: return std::make_unique<NumberFinder<std::uint32_t>>();
    case TypeId::kUInt64: return std::make_unique<NumberFinder<std::uint64_t>>();
    case TypeId::kFloat32: return std::make_unique<NumberFinder<std::int32_t, float>>();
    case TypeId::kFloat64: return std::make_unique<NumberFinder<std::int64_t, double>>();
    case TypeId::kInt32:
    case TypeId::kDecimal32:
    case TypeId::kDate32:
    case TypeId::kTime32: return std::make_unique<NumberFinder<std::int32_t>>();
    case TypeId::kInt64:
    case TypeId::kDecimal64:
    case TypeId::kDate64:
    case TypeId::kTime64:
    case TypeId::kTimestamp:
    case TypeId::kDuration: return std::make_unique<NumberFinder<std::int64_t>>();
    case TypeId::kDecimal128: return std::make_unique<DecimalFinder<2>>();
    case TypeId::kDecimal256: return std::make_unique<DecimalFinder<4>>();
    case TypeId::kUtf8:
    case TypeId::kLargeUtf8:
    case TypeId::kUtf8View: return std::make_unique<TextFinder>(true);
    case TypeId::kBinary:
    case TypeId::kLargeBinary:
    case TypeId::kBinaryView: return std::make_unique<TextFinder>(false);
    default: throw std::logic_error("columns of this type have no bounds");
  }
}

}  // namespace crossdock::array
