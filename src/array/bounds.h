#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "crossdock/array/schema.h"

namespace crossdock::array {

/// The lowest and the highest of a column's elements that aren't null, or bounds of them.
struct Bounds {
  std::string min;  ///< A value as it is in a buffer of fixed width (a bool: one byte, 0 or 1), or the bytes of a text.
  std::string max;
  bool operator==(const Bounds&) const = default;
};

/// The most bytes of a text in Bounds.
inline constexpr std::size_t kMostBoundText = 32;
/// The most bytes of a text that BoundsFinder looks at, from its start.
inline constexpr std::size_t kMostTextRead = 64;

/// Returns a text of at most kMostBoundText bytes that isn't above `text`, in the order of bytes. `utf8`: both are
/// UTF-8.
std::string lower_bound_of(std::string_view text, bool utf8);
/// Returns a text of at most kMostBoundText bytes that isn't below `text`; nothing, if there is none.
std::optional<std::string> upper_bound_of(std::string_view text, bool utf8);

/// Finds the bounds of elements of one type, which come piece by piece. For types of fixed width: integers, floats of
/// 32 and 64 bits, bool, decimals, dates, times, timestamps and durations; and for texts and binaries of any kind.
class BoundsFinder {
 public:
  virtual ~BoundsFinder() = default;
  /// Whether columns of a field have bounds: their type is one of those, and they have no dictionary.
  static bool exist_for(const Field& field) noexcept;
  /// Returns a finder for a field that has bounds.
  static std::unique_ptr<BoundsFinder> make(const Field& field);

  /// For types of fixed width: adds `n` elements at `values`, at any alignment; bools: bits, from the first on. Bit i
  /// of `validity` is of element i; null: none of them is null.
  virtual void add(const std::byte* values, const std::byte* validity, std::int64_t n) = 0;
  /// For texts and binaries: adds an element.
  virtual void add(std::string_view text) = 0;
  /// Returns the bounds of all elements. Nothing: all of them are null, or there are none; a NaN is among them; or, of
  /// texts, no short text is above the highest. Zero among floats is -0.0 as the lowest, and 0.0 as the highest.
  virtual std::optional<Bounds> finish() = 0;
};

}  // namespace crossdock::array
