#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ratio>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "crossdock/array/schema.h"
#include "crossdock/core/chrono.h"
#include "crossdock/core/export.h"

/// The types of C++ that stand for Arrow's: for column views (column.h) and builders (builder.h).
namespace crossdock::array {

/// The digits of a decimal as one number: its value is this, divided by 10 to the power of Type::scale.
__extension__ typedef __int128 Int128;

/// Lists of any kind, whose elements are read as T. One element is a Column<T>.
template <class T>
struct ListOf {};

/// A dictionary-encoded column, whose values are read as T.
template <class T>
struct Dictionary {};

/// A time of day: the time since midnight.
template <class D>
struct TimeOfDay {
  D since_midnight{};  ///< 0 to a day; a column may hold others, which check_full() finds.
  auto operator<=>(const TimeOfDay&) const = default;
};

/// Durations in the units that Arrow has, with 64 bits.
template <class D>
concept ArrowDuration = std::same_as<D, std::chrono::duration<typename D::rep, typename D::period>> &&
                            std::signed_integral<typename D::rep> && sizeof(typename D::rep) == sizeof(std::int64_t) &&
                        (std::same_as<typename D::period, std::ratio<1>> ||
                         std::same_as<typename D::period, std::milli> || std::same_as<typename D::period, std::micro> ||
                         std::same_as<typename D::period, std::nano>);

/// Returns the unit of such a duration.
template <ArrowDuration D>
constexpr TimeUnit unit_of() noexcept {
  if constexpr (std::same_as<typename D::period, std::ratio<1>>) return TimeUnit::kSecond;
  if constexpr (std::same_as<typename D::period, std::milli>) return TimeUnit::kMilli;
  if constexpr (std::same_as<typename D::period, std::micro>) return TimeUnit::kMicro;
  return TimeUnit::kNano;
}

/// The clock of std::chrono::local_time: an empty type without now(). The standard's calendars define it, but take long
/// to compile and aren't included here. A clock of yours without now() is a local time, too.
template <class C>
concept NoClock = std::is_empty_v<C> && !requires {
  C::now();
};

/// Says for a T of Column<T> and ColumnBuilder<T> which columns it is for. For other types there is no definition.
///
/// | T | read from | built as |
/// | --- | --- | --- |
/// | std::int8_t to std::uint64_t, float, double | the same type | the same type |
/// | bool | bool | bool |
/// | std::string_view | utf8, large_utf8, utf8_view | utf8 |
/// | std::span<const std::byte> | binary, large_binary, binary_view, fixed_size_binary | binary |
/// | std::chrono::sys_days | date32, date64 | date32 |
/// | std::chrono::sys_time<D> | timestamps of D's unit with a time zone | those of UTC |
/// | std::chrono::local_time<D> | timestamps of D's unit without a time zone | the same |
/// | std::chrono::seconds, milliseconds, microseconds, nanoseconds | durations of this unit | the same |
/// | TimeOfDay<D> | time32, time64 of D's unit | the same |
/// | Int128 | decimal32, decimal64, decimal128 | decimal128 |
/// | ListOf<T> | lists of all kinds, of elements that are read as T | list |
/// | Dictionary<T> | dictionary-encoded columns, of values that are read as T | with int32 indices |
///
/// Each definition has these members:
/// - `type()`: the Arrow type that T is built as.
/// - `matches()`: whether columns of a type are read as T. It doesn't look at the fields that are nested in the type.
/// - `kPlain`: whether elements lie in memory as T, one after the other.
/// - `Stored`: if T is of fixed width and isn't plain, the type of an element in the memory of a built column.
/// - `store()`: converts a T to that type. A value that doesn't fit is cut off.
template <class T>
struct ColumnType;

/// A type of C++ that columns can be read as.
template <class T>
concept ColumnElement = requires(const Type& type) {
  { ColumnType<T>::type() } -> std::same_as<Type>;
  { ColumnType<T>::matches(type) } -> std::same_as<bool>;
};

/// A type whose elements lie in the column's memory one after the other as they are.
template <class T>
concept PlainElement = ColumnElement<T> && std::is_trivially_copyable_v<T> && ColumnType<T>::kPlain;

/// Returns the type of C++ that a column of this field is read as, as in "std::string_view"; empty if there is none.
CROSSDOCK_EXPORT std::string cpp_type_name(const Field& field);

/// What is the same for most types: one Arrow type, and elements as they lie in memory.
template <TypeId Id>
struct PlainColumnType {
  static constexpr bool kPlain = true;  ///< As all members, see ColumnType.
  /// Returns the one Arrow type.
  static Type type() { return {.id = Id}; }
  /// Returns true for the one Arrow type.
  static bool matches(const Type& type) noexcept { return type.id == Id; }
};

template <>
struct ColumnType<std::int8_t> : PlainColumnType<TypeId::kInt8> {};
template <>
struct ColumnType<std::int16_t> : PlainColumnType<TypeId::kInt16> {};
template <>
struct ColumnType<std::int32_t> : PlainColumnType<TypeId::kInt32> {};
template <>
struct ColumnType<std::int64_t> : PlainColumnType<TypeId::kInt64> {};
template <>
struct ColumnType<std::uint8_t> : PlainColumnType<TypeId::kUInt8> {};
template <>
struct ColumnType<std::uint16_t> : PlainColumnType<TypeId::kUInt16> {};
template <>
struct ColumnType<std::uint32_t> : PlainColumnType<TypeId::kUInt32> {};
template <>
struct ColumnType<std::uint64_t> : PlainColumnType<TypeId::kUInt64> {};
template <>
struct ColumnType<float> : PlainColumnType<TypeId::kFloat32> {};
template <>
struct ColumnType<double> : PlainColumnType<TypeId::kFloat64> {};

template <ArrowDuration D>
struct ColumnType<D> {
  static constexpr bool kPlain = true;
  static Type type() { return {.id = TypeId::kDuration, .unit = unit_of<D>()}; }
  static bool matches(const Type& type) noexcept { return type.id == TypeId::kDuration && type.unit == unit_of<D>(); }
};

template <ArrowDuration D>
struct ColumnType<std::chrono::sys_time<D>> {
  static constexpr bool kPlain = true;
  static Type type() { return {.id = TypeId::kTimestamp, .unit = unit_of<D>(), .timezone = "UTC"}; }
  static bool matches(const Type& type) noexcept {
    return type.id == TypeId::kTimestamp && type.unit == unit_of<D>() && !type.timezone.empty();
  }
};

template <class Clock, ArrowDuration D>
requires NoClock<Clock>
struct ColumnType<std::chrono::time_point<Clock, D>> {
  static constexpr bool kPlain = true;
  static Type type() { return {.id = TypeId::kTimestamp, .unit = unit_of<D>()}; }
  static bool matches(const Type& type) noexcept {
    return type.id == TypeId::kTimestamp && type.unit == unit_of<D>() && type.timezone.empty();
  }
};

template <>
struct ColumnType<std::chrono::sys_days> {
  static constexpr bool kPlain = false;
  using Stored = std::int32_t;
  static Type type() { return {.id = TypeId::kDate32}; }
  static bool matches(const Type& type) noexcept { return type.id == TypeId::kDate32 || type.id == TypeId::kDate64; }
  static Stored store(std::chrono::sys_days day) noexcept {
    return static_cast<Stored>(day.time_since_epoch().count());
  }
};

template <ArrowDuration D>
struct ColumnType<TimeOfDay<D>> {
  static constexpr bool kPlain = false;
  /// True for seconds and milliseconds, which are time32; the others are time64.
  static constexpr bool kShort = unit_of<D>() == TimeUnit::kSecond || unit_of<D>() == TimeUnit::kMilli;
  using Stored = std::conditional_t<kShort, std::int32_t, std::int64_t>;
  static Type type() { return {.id = kShort ? TypeId::kTime32 : TypeId::kTime64, .unit = unit_of<D>()}; }
  static bool matches(const Type& type) noexcept {
    return type.id == (kShort ? TypeId::kTime32 : TypeId::kTime64) && type.unit == unit_of<D>();
  }
  static Stored store(TimeOfDay<D> time) noexcept { return static_cast<Stored>(time.since_midnight.count()); }
};

template <>
struct ColumnType<Int128> {
  static constexpr bool kPlain = false;
  using Stored = Int128;
  static Type type() { return {.id = TypeId::kDecimal128, .precision = 38}; }
  static bool matches(const Type& type) noexcept {
    return type.id == TypeId::kDecimal32 || type.id == TypeId::kDecimal64 || type.id == TypeId::kDecimal128;
  }
  static Stored store(Int128 digits) noexcept { return digits; }
};

template <>
struct ColumnType<bool> {
  static constexpr bool kPlain = false;
  static Type type() { return {.id = TypeId::kBool}; }
  static bool matches(const Type& type) noexcept { return type.id == TypeId::kBool; }
};

template <>
struct ColumnType<std::string_view> {
  static constexpr bool kPlain = false;
  static Type type() { return {.id = TypeId::kUtf8}; }
  static bool matches(const Type& type) noexcept {
    return type.id == TypeId::kUtf8 || type.id == TypeId::kLargeUtf8 || type.id == TypeId::kUtf8View;
  }
};

template <>
struct ColumnType<std::span<const std::byte>> {
  static constexpr bool kPlain = false;
  static Type type() { return {.id = TypeId::kBinary}; }
  static bool matches(const Type& type) noexcept {
    return type.id == TypeId::kBinary || type.id == TypeId::kLargeBinary || type.id == TypeId::kBinaryView ||
           type.id == TypeId::kFixedSizeBinary;
  }
};

/// Whether ListOf<T> reads a type: that of its elements is checked as well.
template <ColumnElement T>
struct ColumnType<ListOf<T>> {
  static constexpr bool kPlain = false;
  static Type type() { return {.id = TypeId::kList}; }
  static bool matches(const Type& type) noexcept {
    return type.id == TypeId::kList || type.id == TypeId::kLargeList || type.id == TypeId::kListView ||
           type.id == TypeId::kLargeListView || type.id == TypeId::kFixedSizeList;
  }
};

/// The type is that of the indices; that of the values is checked as well.
template <ColumnElement T>
struct ColumnType<Dictionary<T>> {
  static constexpr bool kPlain = false;
  static Type type() { return {.id = TypeId::kInt32}; }
  static bool matches(const Type& /*type*/) noexcept { return true; }
};

/// Returns the field of a new column: nullable, of the type that T is built as.
template <ColumnElement T>
Field field_of(std::string name);

/// What the fields of nested types have beside their name and type.
template <class T>
struct FieldParts {
  /// Adds the child of a list, or the values of a dictionary; nothing for other types.
  static void add(Field* /*field*/) {}
};
template <class T>
struct FieldParts<ListOf<T>> {
  static void add(Field* field) { field->children.push_back(field_of<T>("item")); }
};
template <class T>
struct FieldParts<Dictionary<T>> {
  static void add(Field* field) { field->dictionary = std::make_shared<const Field>(field_of<T>("")); }
};

template <ColumnElement T>
Field field_of(std::string name) {
  Field field;
  field.name = std::move(name);
  field.type = ColumnType<T>::type();
  FieldParts<T>::add(&field);
  return field;
}

}  // namespace crossdock::array
