#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "crossdock/core/export.h"

namespace crossdock::array {

/// The logical types of the Arrow columnar format that Crossdock carries.
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
};

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

  bool operator==(const Type&) const = default;
};

/// What a buffer holds. The order of a type's buffers is that of the columnar format.
enum class BufferKind : std::uint8_t {
  kValidity,   ///< One bit per element, may be absent.
  kBits,       ///< Bool values, one bit per element.
  kFixed,      ///< `width` bytes per element.
  kOffsets32,  ///< length + 1 int32; none needed at length 0.
  kOffsets64,  ///< length + 1 int64; none needed at length 0.
  kBytes,      ///< What the offsets before it point into.
};

/// The table of type layouts: which buffers and how many children an array of this type has.
struct TypeLayout {
  std::uint8_t n_buffers = 0;
  BufferKind buffers[3] = {};
  std::int32_t width = 0;       ///< Bytes per element of the kFixed buffer.
  std::int32_t n_children = 0;  ///< -1: any number (struct).
};

/// Total: defined for every TypeId. No allocation, thread-safe.
CROSSDOCK_EXPORT TypeLayout type_layout(const Type& type) noexcept;

/// For messages, as in "timestamp[us, UTC]", "decimal128(9, 2)".
CROSSDOCK_EXPORT std::string type_name(const Type& type);

}  // namespace crossdock::array
