#include "ipc/internal/type_map.h"

#include <limits>
#include <utility>
#include <vector>

namespace crossdock::ipc {
namespace {

using array::Type;
using array::TypeId;

struct IntegerWidth {
  TypeId id;
  std::int32_t bits;
  bool is_signed;
};

constexpr IntegerWidth kIntegers[] = {
    {TypeId::kInt8, 8, true},     {TypeId::kInt16, 16, true},   {TypeId::kInt32, 32, true},
    {TypeId::kInt64, 64, true},   {TypeId::kUInt8, 8, false},   {TypeId::kUInt16, 16, false},
    {TypeId::kUInt32, 32, false}, {TypeId::kUInt64, 64, false},
};

ReadType good(Type type) { return {std::move(type), {}, {}}; }
ReadType plain(TypeId id) { return good(Type{.id = id}); }
ReadType unknown(std::string name) { return {std::nullopt, std::move(name), {}}; }
ReadType invalid(std::string what) { return {std::nullopt, {}, std::move(what)}; }

ReadType read_integer(const flatbuf::Int& type) {
  for (const IntegerWidth& known : kIntegers) {
    if (known.bits == type.bit_width() && known.is_signed == type.is_signed()) return plain(known.id);
  }
  return invalid("integers of " + std::to_string(type.bit_width()) + " bits don't exist");
}

ReadType read_float(flatbuf::Precision precision) {
  switch (precision) {
    case flatbuf::Precision::HALF: return plain(TypeId::kFloat16);
    case flatbuf::Precision::SINGLE: return plain(TypeId::kFloat32);
    case flatbuf::Precision::DOUBLE: return plain(TypeId::kFloat64);
  }
  return invalid("floating-point precision " + std::to_string(static_cast<int>(precision)) + " doesn't exist");
}

ReadType read_decimal(const flatbuf::Decimal& type) {
  Type out{.precision = type.precision(), .scale = type.scale()};
  switch (type.bit_width()) {
    case 32: out.id = TypeId::kDecimal32; break;
    case 64: out.id = TypeId::kDecimal64; break;
    case 128: out.id = TypeId::kDecimal128; break;
    case 256: out.id = TypeId::kDecimal256; break;
    default: return invalid("decimals of " + std::to_string(type.bit_width()) + " bits don't exist");
  }
  return good(std::move(out));
}

std::optional<array::TimeUnit> read_unit(flatbuf::TimeUnit unit) {
  switch (unit) {
    case flatbuf::TimeUnit::SECOND: return array::TimeUnit::kSecond;
    case flatbuf::TimeUnit::MILLISECOND: return array::TimeUnit::kMilli;
    case flatbuf::TimeUnit::MICROSECOND: return array::TimeUnit::kMicro;
    case flatbuf::TimeUnit::NANOSECOND: return array::TimeUnit::kNano;
  }
  return std::nullopt;
}

flatbuf::TimeUnit write_unit(array::TimeUnit unit) {
  switch (unit) {
    case array::TimeUnit::kSecond: return flatbuf::TimeUnit::SECOND;
    case array::TimeUnit::kMilli: return flatbuf::TimeUnit::MILLISECOND;
    case array::TimeUnit::kMicro: return flatbuf::TimeUnit::MICROSECOND;
    case array::TimeUnit::kNano: return flatbuf::TimeUnit::NANOSECOND;
  }
  throw InvalidDataError("time unit " + std::to_string(static_cast<int>(unit)) + " doesn't exist");
}

ReadType with_unit(TypeId id, flatbuf::TimeUnit unit, std::string timezone = {}) {
  const auto known = read_unit(unit);
  if (!known) return invalid("time unit " + std::to_string(static_cast<int>(unit)) + " doesn't exist");
  return good(Type{.id = id, .unit = *known, .timezone = std::move(timezone)});
}

ReadType read_time(const flatbuf::Time& type) {
  if (type.bit_width() == 32) return with_unit(TypeId::kTime32, type.unit());
  if (type.bit_width() == 64) return with_unit(TypeId::kTime64, type.unit());
  return invalid("times of " + std::to_string(type.bit_width()) + " bits don't exist");
}

ReadType read_date(flatbuf::DateUnit unit) {
  switch (unit) {
    case flatbuf::DateUnit::DAY: return plain(TypeId::kDate32);
    case flatbuf::DateUnit::MILLISECOND: return plain(TypeId::kDate64);
  }
  return invalid("date unit " + std::to_string(static_cast<int>(unit)) + " doesn't exist");
}

ReadType read_interval(flatbuf::IntervalUnit unit) {
  switch (unit) {
    case flatbuf::IntervalUnit::YEAR_MONTH: return plain(TypeId::kIntervalMonths);
    case flatbuf::IntervalUnit::DAY_TIME: return plain(TypeId::kIntervalDayTime);
    case flatbuf::IntervalUnit::MONTH_DAY_NANO: return plain(TypeId::kIntervalMonthDayNano);
  }
  return invalid("interval unit " + std::to_string(static_cast<int>(unit)) + " doesn't exist");
}

/// Without type ids, the id of each child is its position.
ReadType read_union(const flatbuf::Union& type, std::size_t n_children) {
  Type out;
  switch (type.mode()) {
    case flatbuf::UnionMode::Sparse: out.id = TypeId::kSparseUnion; break;
    case flatbuf::UnionMode::Dense: out.id = TypeId::kDenseUnion; break;
    default: return invalid("union mode " + std::to_string(static_cast<int>(type.mode())) + " doesn't exist");
  }
  constexpr std::int32_t kMostCode = std::numeric_limits<std::int8_t>::max();
  const auto* ids = type.type_ids();
  const std::size_t n = ids ? ids->size() : n_children;
  if (n != n_children || n > static_cast<std::size_t>(kMostCode) + 1) {
    return invalid("a union has " + std::to_string(n) + " type ids and " + std::to_string(n_children) +
                   " children; there must be as many, and at most 128");
  }
  out.type_codes.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t code = ids ? ids->Get(static_cast<flatbuffers::uoffset_t>(i)) : static_cast<std::int32_t>(i);
    if (code < 0 || code > kMostCode) {
      return invalid("a union has the type id " + std::to_string(code) + "; they are 0 to 127");
    }
    out.type_codes.push_back(static_cast<std::int8_t>(code));
  }
  return good(std::move(out));
}

WrittenType write_union(flatbuffers::FlatBufferBuilder& b, const Type& type) {
  const std::vector<std::int32_t> codes(type.type_codes.begin(), type.type_codes.end());
  const auto mode = type.id == TypeId::kDenseUnion ? flatbuf::UnionMode::Dense : flatbuf::UnionMode::Sparse;
  return {flatbuf::Type::Union, flatbuf::CreateUnion(b, mode, b.CreateVector(codes)).Union()};
}

/// Reads the type of a field or a tensor, which have the same members for it.
template <class Table>
ReadType read_type_of(const Table& field, std::size_t n_children) {
  if (field.type_type() == flatbuf::Type::NONE) return invalid("it has no type");
  if (field.type() == nullptr) return invalid("its type has no parameters table");
  switch (field.type_type()) {
    case flatbuf::Type::Null: return plain(TypeId::kNull);
    case flatbuf::Type::Int: return read_integer(*field.type_as_Int());
    case flatbuf::Type::FloatingPoint: return read_float(field.type_as_FloatingPoint()->precision());
    case flatbuf::Type::Binary: return plain(TypeId::kBinary);
    case flatbuf::Type::Utf8: return plain(TypeId::kUtf8);
    case flatbuf::Type::Bool: return plain(TypeId::kBool);
    case flatbuf::Type::Decimal: return read_decimal(*field.type_as_Decimal());
    case flatbuf::Type::Date: return read_date(field.type_as_Date()->unit());
    case flatbuf::Type::Time: return read_time(*field.type_as_Time());
    case flatbuf::Type::Timestamp: {
      const flatbuf::Timestamp& type = *field.type_as_Timestamp();
      return with_unit(TypeId::kTimestamp, type.unit(), type.timezone() ? type.timezone()->str() : std::string());
    }
    case flatbuf::Type::List: return plain(TypeId::kList);
    case flatbuf::Type::Struct_: return plain(TypeId::kStruct);
    case flatbuf::Type::FixedSizeBinary:
      return good(Type{.id = TypeId::kFixedSizeBinary, .fixed_size = field.type_as_FixedSizeBinary()->byte_width()});
    case flatbuf::Type::FixedSizeList:
      return good(Type{.id = TypeId::kFixedSizeList, .fixed_size = field.type_as_FixedSizeList()->list_size()});
    case flatbuf::Type::Map: return good(Type{.id = TypeId::kMap, .keys_sorted = field.type_as_Map()->keys_sorted()});
    case flatbuf::Type::Duration: return with_unit(TypeId::kDuration, field.type_as_Duration()->unit());
    case flatbuf::Type::LargeBinary: return plain(TypeId::kLargeBinary);
    case flatbuf::Type::LargeUtf8: return plain(TypeId::kLargeUtf8);
    case flatbuf::Type::LargeList: return plain(TypeId::kLargeList);
    case flatbuf::Type::Interval: return read_interval(field.type_as_Interval()->unit());
    case flatbuf::Type::Union: return read_union(*field.type_as_Union(), n_children);
    case flatbuf::Type::RunEndEncoded: return plain(TypeId::kRunEndEncoded);
    case flatbuf::Type::BinaryView: return plain(TypeId::kBinaryView);
    case flatbuf::Type::Utf8View: return plain(TypeId::kUtf8View);
    case flatbuf::Type::ListView: return plain(TypeId::kListView);
    case flatbuf::Type::LargeListView: return plain(TypeId::kLargeListView);
    case flatbuf::Type::NONE: break;
  }
  return unknown("number " + std::to_string(static_cast<int>(field.type_type())));
}

}  // namespace

ReadType read_type(const flatbuf::Field& field) {
  return read_type_of(field, field.children() ? field.children()->size() : 0);
}

ReadType read_type(const flatbuf::Tensor& tensor) { return read_type_of(tensor, 0); }

ReadType read_index_type(const flatbuf::Int* index_type) {
  return index_type ? read_integer(*index_type) : plain(TypeId::kInt32);
}

flatbuffers::Offset<flatbuf::Int> write_integer(flatbuffers::FlatBufferBuilder& builder, TypeId type) {
  for (const IntegerWidth& known : kIntegers) {
    if (known.id == type) return flatbuf::CreateInt(builder, known.bits, known.is_signed);
  }
  throw InvalidDataError(array::type_name(Type{.id = type}) + " isn't an integer type");
}

WrittenType write_type(flatbuffers::FlatBufferBuilder& b, const Type& type) {
  using K = flatbuf::Type;
  switch (type.id) {
    case TypeId::kNull: return {K::Null, flatbuf::CreateNull(b).Union()};
    case TypeId::kBool: return {K::Bool, flatbuf::CreateBool(b).Union()};
    case TypeId::kInt8:
    case TypeId::kInt16:
    case TypeId::kInt32:
    case TypeId::kInt64:
    case TypeId::kUInt8:
    case TypeId::kUInt16:
    case TypeId::kUInt32:
    case TypeId::kUInt64: return {K::Int, write_integer(b, type.id).Union()};
    case TypeId::kFloat16: return {K::FloatingPoint, flatbuf::CreateFloatingPoint(b, flatbuf::Precision::HALF).Union()};
    case TypeId::kFloat32:
      return {K::FloatingPoint, flatbuf::CreateFloatingPoint(b, flatbuf::Precision::SINGLE).Union()};
    case TypeId::kFloat64:
      return {K::FloatingPoint, flatbuf::CreateFloatingPoint(b, flatbuf::Precision::DOUBLE).Union()};
    case TypeId::kDecimal32: return {K::Decimal, flatbuf::CreateDecimal(b, type.precision, type.scale, 32).Union()};
    case TypeId::kDecimal64: return {K::Decimal, flatbuf::CreateDecimal(b, type.precision, type.scale, 64).Union()};
    case TypeId::kDecimal128: return {K::Decimal, flatbuf::CreateDecimal(b, type.precision, type.scale, 128).Union()};
    case TypeId::kDecimal256: return {K::Decimal, flatbuf::CreateDecimal(b, type.precision, type.scale, 256).Union()};
    case TypeId::kDate32: return {K::Date, flatbuf::CreateDate(b, flatbuf::DateUnit::DAY).Union()};
    case TypeId::kDate64: return {K::Date, flatbuf::CreateDate(b, flatbuf::DateUnit::MILLISECOND).Union()};
    case TypeId::kTime32: return {K::Time, flatbuf::CreateTime(b, write_unit(type.unit), 32).Union()};
    case TypeId::kTime64: return {K::Time, flatbuf::CreateTime(b, write_unit(type.unit), 64).Union()};
    case TypeId::kTimestamp: {
      // Some readers distinguish no zone from an empty zone: an absent string means "no zone".
      const auto zone =
          type.timezone.empty() ? flatbuffers::Offset<flatbuffers::String>() : b.CreateString(type.timezone);
      return {K::Timestamp, flatbuf::CreateTimestamp(b, write_unit(type.unit), zone).Union()};
    }
    case TypeId::kDuration: return {K::Duration, flatbuf::CreateDuration(b, write_unit(type.unit)).Union()};
    case TypeId::kUtf8: return {K::Utf8, flatbuf::CreateUtf8(b).Union()};
    case TypeId::kLargeUtf8: return {K::LargeUtf8, flatbuf::CreateLargeUtf8(b).Union()};
    case TypeId::kBinary: return {K::Binary, flatbuf::CreateBinary(b).Union()};
    case TypeId::kLargeBinary: return {K::LargeBinary, flatbuf::CreateLargeBinary(b).Union()};
    case TypeId::kFixedSizeBinary:
      return {K::FixedSizeBinary, flatbuf::CreateFixedSizeBinary(b, type.fixed_size).Union()};
    case TypeId::kList: return {K::List, flatbuf::CreateList(b).Union()};
    case TypeId::kLargeList: return {K::LargeList, flatbuf::CreateLargeList(b).Union()};
    case TypeId::kFixedSizeList: return {K::FixedSizeList, flatbuf::CreateFixedSizeList(b, type.fixed_size).Union()};
    case TypeId::kStruct: return {K::Struct_, flatbuf::CreateStruct_(b).Union()};
    case TypeId::kMap: return {K::Map, flatbuf::CreateMap(b, type.keys_sorted).Union()};
    case TypeId::kIntervalMonths:
      return {K::Interval, flatbuf::CreateInterval(b, flatbuf::IntervalUnit::YEAR_MONTH).Union()};
    case TypeId::kIntervalDayTime:
      return {K::Interval, flatbuf::CreateInterval(b, flatbuf::IntervalUnit::DAY_TIME).Union()};
    case TypeId::kIntervalMonthDayNano:
      return {K::Interval, flatbuf::CreateInterval(b, flatbuf::IntervalUnit::MONTH_DAY_NANO).Union()};
    case TypeId::kSparseUnion:
    case TypeId::kDenseUnion: return write_union(b, type);
    case TypeId::kRunEndEncoded: return {K::RunEndEncoded, flatbuf::CreateRunEndEncoded(b).Union()};
    case TypeId::kUtf8View: return {K::Utf8View, flatbuf::CreateUtf8View(b).Union()};
    case TypeId::kBinaryView: return {K::BinaryView, flatbuf::CreateBinaryView(b).Union()};
    case TypeId::kListView: return {K::ListView, flatbuf::CreateListView(b).Union()};
    case TypeId::kLargeListView: return {K::LargeListView, flatbuf::CreateLargeListView(b).Union()};
  }
  throw InvalidDataError("type number " + std::to_string(static_cast<int>(type.id)) + " doesn't exist");
}

}  // namespace crossdock::ipc
