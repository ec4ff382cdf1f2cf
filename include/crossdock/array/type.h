#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"

namespace crossdock::array {

/// All logical types of the Arrow columnar format.
enum class TypeId : std::uint8_t {
  kNull,
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kDecimal32,
  kDecimal64,
  kDecimal128,
  kDecimal256,
  kDate32,
  kDate64,
  kTime32,
  kTime64,
  kTimestamp,
  kDuration,
  kUtf8,
  kLargeUtf8,
  kBinary,
  kLargeBinary,
  kFixedSizeBinary,
  kList,
  kLargeList,
  kFixedSizeList,
  kStruct,
  kMap,
  kIntervalMonths,
  kIntervalDayTime,
  kIntervalMonthDayNano,
  kSparseUnion,
  kDenseUnion,
  kRunEndEncoded,
  kUtf8View,
  kBinaryView,
  kListView,
  kLargeListView,
};

/// One past the last TypeId.
inline constexpr int kTypeCount = static_cast<int>(TypeId::kLargeListView) + 1;

enum class TimeUnit : std::uint8_t { kSecond, kMilli, kMicro, kNano };

/// A type without its children: those are fields, see schema.h. A plain value.
struct Type {
  TypeId id = TypeId::kNull;
  TimeUnit unit = TimeUnit::kSecond;  ///< Time, Timestamp, Duration.
  std::int32_t precision = 0;         ///< Decimal.
  std::int32_t scale = 0;             ///< Decimal.
  std::int32_t fixed_size = 0;        ///< FixedSizeBinary: bytes; FixedSizeList: elements.
  bool keys_sorted = false;           ///< Map.
  std::string timezone{};             ///< Timestamp; empty means none.
  /// Unions: the type id of the elements of child i. One per child, all different, 0 to 127.
  std::vector<std::int8_t> type_codes{};

  bool operator==(const Type&) const = default;
};

/// Content of a buffer. The order of a type's buffers is that of the columnar format.
enum class BufferKind : std::uint8_t {
  kValidity,           ///< One bit per element, may be absent.
  kBits,               ///< Bool values, one bit per element.
  kFixed,              ///< `width` bytes per element.
  kOffsets32,          ///< length + 1 int32; none needed at length 0.
  kOffsets64,          ///< length + 1 int64; none needed at length 0.
  kBytes,              ///< The data that the offsets before it point into.
  kTypeIds,            ///< Unions: one int8 per element, the type id of its child.
  kUnionOffsets,       ///< Dense unions: one int32 per element, its index in the child.
  kViews,              ///< 16 bytes per element: length, and the bytes themselves or their place.
  kListViewOffsets32,  ///< One int32 per element: index of its first element in the child.
  kListViewOffsets64,  ///< One int64 per element.
  kListViewSizes32,    ///< One int32 per element: its number of elements of the child.
  kListViewSizes64,    ///< One int64 per element.
};

/// Layout of a type: the buffers and the number of children of its arrays.
struct TypeLayout {
  std::uint8_t n_buffers = 0;
  BufferKind buffers[3] = {};
  std::int32_t width = 0;       ///< Bytes per element of the kFixed buffer.
  std::int32_t n_children = 0;  ///< -1: any number (struct, unions).
  /// Views: any number of byte buffers follow these, as many as RecordBatch::variadic_counts says.
  bool variadic = false;

  /// True if the first buffer is a validity bitmap. A type without one has no nulls of its own, except for the null
  /// type.
  constexpr bool has_validity() const noexcept { return n_buffers > 0 && buffers[0] == BufferKind::kValidity; }
};

/// Returns the bytes per element of a buffer. `width` is that of TypeLayout, for kFixed. Returns 0 for kinds whose size
/// isn't a multiple of the length: bits, offsets (length + 1 of them) and bytes.
constexpr std::int32_t element_width(BufferKind kind, std::int32_t width) noexcept {
  switch (kind) {
    case BufferKind::kFixed: return width;
    case BufferKind::kTypeIds: return 1;
    case BufferKind::kUnionOffsets:
    case BufferKind::kListViewOffsets32:
    case BufferKind::kListViewSizes32: return 4;
    case BufferKind::kListViewOffsets64:
    case BufferKind::kListViewSizes64: return 8;
    case BufferKind::kViews: return 16;
    case BufferKind::kValidity:
    case BufferKind::kBits:
    case BufferKind::kOffsets32:
    case BufferKind::kOffsets64:
    case BufferKind::kBytes: break;
  }
  return 0;
}

/// An address that is a multiple of this suits every buffer.
inline constexpr std::uint32_t kMostAlignment = 8;

/// Returns the number that a buffer's address must be a multiple of, so that its elements can be read in place: 1, 2, 4
/// or 8. `width` as in TypeLayout. Larger decimals and intervals consist of numbers of 8 bytes.
constexpr std::uint32_t element_alignment(BufferKind kind, std::int32_t width) noexcept {
  if (kind == BufferKind::kOffsets32) return 4;
  if (kind == BufferKind::kOffsets64) return 8;
  const auto bytes = static_cast<std::uint32_t>(element_width(kind, width));
  if (bytes == 0) return 1;  // bits, bytes, and elements of no bytes
  const std::uint32_t power = bytes & (0 - bytes);
  return power < kMostAlignment ? power : kMostAlignment;
}

/// Returns the layout of a type; defined for every TypeId. Doesn't allocate. Thread-safe.
CROSSDOCK_EXPORT TypeLayout type_layout(const Type& type) noexcept;

/// Returns a name for messages, as in "timestamp[us, UTC]", "decimal128(9, 2)".
CROSSDOCK_EXPORT std::string type_name(const Type& type);

}  // namespace crossdock::array
