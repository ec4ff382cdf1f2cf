#include "crossdock/array/column_type.h"

namespace crossdock::array {
namespace {

std::string duration_name(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::kSecond: return "std::chrono::seconds";
    case TimeUnit::kMilli: return "std::chrono::milliseconds";
    case TimeUnit::kMicro: return "std::chrono::microseconds";
    case TimeUnit::kNano: return "std::chrono::nanoseconds";
  }
  return {};
}

// Returns the name with its argument, or nothing where the argument has none.
std::string of(const char* name, const std::string& argument) {
  return argument.empty() ? argument : std::string(name) + "<" + argument + ">";
}

}  // namespace

std::string cpp_type_name(const Field& field) {
  if (field.dictionary) return of("array::Dictionary", cpp_type_name(*field.dictionary));
  const Type& type = field.type;
  switch (type.id) {
    case TypeId::kBool: return "bool";
    case TypeId::kInt8: return "std::int8_t";
    case TypeId::kInt16: return "std::int16_t";
    case TypeId::kInt32: return "std::int32_t";
    case TypeId::kInt64: return "std::int64_t";
    case TypeId::kUInt8: return "std::uint8_t";
    case TypeId::kUInt16: return "std::uint16_t";
    case TypeId::kUInt32: return "std::uint32_t";
    case TypeId::kUInt64: return "std::uint64_t";
    case TypeId::kFloat32: return "float";
    case TypeId::kFloat64: return "double";
    case TypeId::kDecimal32:
    case TypeId::kDecimal64:
    case TypeId::kDecimal128: return "array::Int128";
    case TypeId::kDate32:
    case TypeId::kDate64: return "std::chrono::sys_days";
    case TypeId::kTime32:
    case TypeId::kTime64: return of("array::TimeOfDay", duration_name(type.unit));
    case TypeId::kTimestamp:
      return of(type.timezone.empty() ? "std::chrono::local_time" : "std::chrono::sys_time", duration_name(type.unit));
    case TypeId::kDuration: return duration_name(type.unit);
    case TypeId::kUtf8:
    case TypeId::kLargeUtf8:
    case TypeId::kUtf8View: return "std::string_view";
    case TypeId::kBinary:
    case TypeId::kLargeBinary:
    case TypeId::kFixedSizeBinary:
    case TypeId::kBinaryView: return "std::span<const std::byte>";
    case TypeId::kList:
    case TypeId::kLargeList:
    case TypeId::kFixedSizeList:
    case TypeId::kListView:
    case TypeId::kLargeListView: return of("array::ListOf", cpp_type_name(field.children.front()));
    case TypeId::kNull:
    case TypeId::kFloat16:
    case TypeId::kDecimal256:
    case TypeId::kStruct:
    case TypeId::kMap:
    case TypeId::kIntervalMonths:
    case TypeId::kIntervalDayTime:
    case TypeId::kIntervalMonthDayNano:
    case TypeId::kSparseUnion:
    case TypeId::kDenseUnion:
    case TypeId::kRunEndEncoded: break;
  }
  return {};
}

}  // namespace crossdock::array
