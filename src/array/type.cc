#include "crossdock/array/schema.h"

#include "array/internal/text.h"

namespace crossdock::array {
namespace {

constexpr TypeLayout fixed(std::int32_t width) noexcept {
  return {2, {BufferKind::kValidity, BufferKind::kFixed}, width, 0};
}

constexpr TypeLayout bytes(BufferKind offsets) noexcept {
  return {3, {BufferKind::kValidity, offsets, BufferKind::kBytes}, 0, 0};
}

constexpr TypeLayout list(BufferKind offsets) noexcept { return {2, {BufferKind::kValidity, offsets}, 0, 1}; }

constexpr TypeLayout list_view(BufferKind offsets, BufferKind sizes) noexcept {
  return {3, {BufferKind::kValidity, offsets, sizes}, 0, 1};
}

constexpr TypeLayout kView{2, {BufferKind::kValidity, BufferKind::kViews}, 0, 0, true};

const char* unit_name(TimeUnit unit) noexcept {
  switch (unit) {
    case TimeUnit::kSecond: return "s";
    case TimeUnit::kMilli: return "ms";
    case TimeUnit::kMicro: return "us";
    case TimeUnit::kNano: return "ns";
  }
  return "?";
}

std::string with(const char* name, const std::string& parameters, char open = '[', char close = ']') {
  return std::string(name) + open + parameters + close;
}

std::string decimal(const char* name, const Type& type) {
  return with(name, std::to_string(type.precision) + ", " + std::to_string(type.scale), '(', ')');
}

/// "sparse_union[0, 5]"
std::string union_name(const char* name, const Type& type) {
  std::string codes;
  for (const std::int8_t code : type.type_codes) codes += (codes.empty() ? "" : ", ") + std::to_string(code);
  return with(name, codes);
}

}  // namespace

TypeLayout type_layout(const Type& type) noexcept {
  switch (type.id) {
    case TypeId::kNull: return {};
    case TypeId::kBool: return {2, {BufferKind::kValidity, BufferKind::kBits}, 0, 0};
    case TypeId::kInt8:
    case TypeId::kUInt8: return fixed(1);
    case TypeId::kInt16:
    case TypeId::kUInt16:
    case TypeId::kFloat16: return fixed(2);
    case TypeId::kInt32:
    case TypeId::kUInt32:
    case TypeId::kFloat32:
    case TypeId::kDecimal32:
    case TypeId::kDate32:
    case TypeId::kTime32: return fixed(4);
    case TypeId::kInt64:
    case TypeId::kUInt64:
    case TypeId::kFloat64:
    case TypeId::kDecimal64:
    case TypeId::kDate64:
    case TypeId::kTime64:
    case TypeId::kTimestamp:
    case TypeId::kDuration: return fixed(8);
    case TypeId::kDecimal128: return fixed(16);
    case TypeId::kDecimal256: return fixed(32);
    case TypeId::kUtf8:
    case TypeId::kBinary: return bytes(BufferKind::kOffsets32);
    case TypeId::kLargeUtf8:
    case TypeId::kLargeBinary: return bytes(BufferKind::kOffsets64);
    case TypeId::kFixedSizeBinary: return fixed(type.fixed_size);
    case TypeId::kList:
    case TypeId::kMap: return list(BufferKind::kOffsets32);
    case TypeId::kLargeList: return list(BufferKind::kOffsets64);
    case TypeId::kFixedSizeList: return {1, {BufferKind::kValidity}, 0, 1};
    case TypeId::kStruct: return {1, {BufferKind::kValidity}, 0, -1};
    case TypeId::kIntervalMonths: return fixed(4);
    case TypeId::kIntervalDayTime: return fixed(8);
    case TypeId::kIntervalMonthDayNano: return fixed(16);
    case TypeId::kSparseUnion: return {1, {BufferKind::kTypeIds}, 0, -1};
    case TypeId::kDenseUnion: return {2, {BufferKind::kTypeIds, BufferKind::kUnionOffsets}, 0, -1};
    case TypeId::kRunEndEncoded: return {0, {}, 0, 2};
    case TypeId::kUtf8View:
    case TypeId::kBinaryView: return kView;
    case TypeId::kListView: return list_view(BufferKind::kListViewOffsets32, BufferKind::kListViewSizes32);
    case TypeId::kLargeListView: return list_view(BufferKind::kListViewOffsets64, BufferKind::kListViewSizes64);
  }
  return {};
}

std::string type_name(const Type& type) {
  switch (type.id) {
    case TypeId::kNull: return "null";
    case TypeId::kBool: return "bool";
    case TypeId::kInt8: return "int8";
    case TypeId::kInt16: return "int16";
    case TypeId::kInt32: return "int32";
    case TypeId::kInt64: return "int64";
    case TypeId::kUInt8: return "uint8";
    case TypeId::kUInt16: return "uint16";
    case TypeId::kUInt32: return "uint32";
    case TypeId::kUInt64: return "uint64";
    case TypeId::kFloat16: return "float16";
    case TypeId::kFloat32: return "float32";
    case TypeId::kFloat64: return "float64";
    case TypeId::kDecimal32: return decimal("decimal32", type);
    case TypeId::kDecimal64: return decimal("decimal64", type);
    case TypeId::kDecimal128: return decimal("decimal128", type);
    case TypeId::kDecimal256: return decimal("decimal256", type);
    case TypeId::kDate32: return "date32";
    case TypeId::kDate64: return "date64";
    case TypeId::kTime32: return with("time32", unit_name(type.unit));
    case TypeId::kTime64: return with("time64", unit_name(type.unit));
    case TypeId::kTimestamp:
      return with("timestamp",
                  unit_name(type.unit) + (type.timezone.empty() ? std::string() : ", " + printable(type.timezone)));
    case TypeId::kDuration: return with("duration", unit_name(type.unit));
    case TypeId::kUtf8: return "utf8";
    case TypeId::kLargeUtf8: return "large_utf8";
    case TypeId::kBinary: return "binary";
    case TypeId::kLargeBinary: return "large_binary";
    case TypeId::kFixedSizeBinary: return with("fixed_size_binary", std::to_string(type.fixed_size));
    case TypeId::kList: return "list";
    case TypeId::kLargeList: return "large_list";
    case TypeId::kFixedSizeList: return with("fixed_size_list", std::to_string(type.fixed_size));
    case TypeId::kStruct: return "struct";
    case TypeId::kMap: return type.keys_sorted ? "map[keys sorted]" : "map";
    case TypeId::kIntervalMonths: return "interval[months]";
    case TypeId::kIntervalDayTime: return "interval[days, ms]";
    case TypeId::kIntervalMonthDayNano: return "interval[months, days, ns]";
    case TypeId::kSparseUnion: return union_name("sparse_union", type);
    case TypeId::kDenseUnion: return union_name("dense_union", type);
    case TypeId::kRunEndEncoded: return "run_end_encoded";
    case TypeId::kUtf8View: return "utf8_view";
    case TypeId::kBinaryView: return "binary_view";
    case TypeId::kListView: return "list_view";
    case TypeId::kLargeListView: return "large_list_view";
  }
  return "unknown type " + std::to_string(static_cast<int>(type.id));
}

}  // namespace crossdock::array
