#include <charconv>
#include <iterator>
#include <limits>

#include "array/internal/format.h"
#include "array/internal/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

/// Properties of a type that depend on none of its parameters.
struct TypeEntry {
  TypeId id;
  std::string_view name;
  std::string_view format;  ///< Format string of the C data interface, up to the first parameter.
  TypeLayout layout;        ///< Without the width of FixedSizeBinary.
};

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

/// All types, in the order of TypeId.
constexpr TypeEntry kTypes[] = {
    {TypeId::kNull, "null", "n", {}},
    {TypeId::kBool, "bool", "b", {2, {BufferKind::kValidity, BufferKind::kBits}, 0, 0}},
    {TypeId::kInt8, "int8", "c", fixed(1)},
    {TypeId::kInt16, "int16", "s", fixed(2)},
    {TypeId::kInt32, "int32", "i", fixed(4)},
    {TypeId::kInt64, "int64", "l", fixed(8)},
    {TypeId::kUInt8, "uint8", "C", fixed(1)},
    {TypeId::kUInt16, "uint16", "S", fixed(2)},
    {TypeId::kUInt32, "uint32", "I", fixed(4)},
    {TypeId::kUInt64, "uint64", "L", fixed(8)},
    {TypeId::kFloat16, "float16", "e", fixed(2)},
    {TypeId::kFloat32, "float32", "f", fixed(4)},
    {TypeId::kFloat64, "float64", "g", fixed(8)},
    {TypeId::kDecimal32, "decimal32", "d:", fixed(4)},
    {TypeId::kDecimal64, "decimal64", "d:", fixed(8)},
    {TypeId::kDecimal128, "decimal128", "d:", fixed(16)},
    {TypeId::kDecimal256, "decimal256", "d:", fixed(32)},
    {TypeId::kDate32, "date32", "tdD", fixed(4)},
    {TypeId::kDate64, "date64", "tdm", fixed(8)},
    {TypeId::kTime32, "time32", "tt", fixed(4)},
    {TypeId::kTime64, "time64", "tt", fixed(8)},
    {TypeId::kTimestamp, "timestamp", "ts", fixed(8)},
    {TypeId::kDuration, "duration", "tD", fixed(8)},
    {TypeId::kUtf8, "utf8", "u", bytes(BufferKind::kOffsets32)},
    {TypeId::kLargeUtf8, "large_utf8", "U", bytes(BufferKind::kOffsets64)},
    {TypeId::kBinary, "binary", "z", bytes(BufferKind::kOffsets32)},
    {TypeId::kLargeBinary, "large_binary", "Z", bytes(BufferKind::kOffsets64)},
    {TypeId::kFixedSizeBinary, "fixed_size_binary", "w:", fixed(0)},
    {TypeId::kList, "list", "+l", list(BufferKind::kOffsets32)},
    {TypeId::kLargeList, "large_list", "+L", list(BufferKind::kOffsets64)},
    {TypeId::kFixedSizeList, "fixed_size_list", "+w:", {1, {BufferKind::kValidity}, 0, 1}},
    {TypeId::kStruct, "struct", "+s", {1, {BufferKind::kValidity}, 0, -1}},
    {TypeId::kMap, "map", "+m", list(BufferKind::kOffsets32)},
    {TypeId::kIntervalMonths, "interval[months]", "tiM", fixed(4)},
    {TypeId::kIntervalDayTime, "interval[days, ms]", "tiD", fixed(8)},
    {TypeId::kIntervalMonthDayNano, "interval[months, days, ns]", "tin", fixed(16)},
    {TypeId::kSparseUnion, "sparse_union", "+us:", {1, {BufferKind::kTypeIds}, 0, -1}},
    {TypeId::kDenseUnion, "dense_union", "+ud:", {2, {BufferKind::kTypeIds, BufferKind::kUnionOffsets}, 0, -1}},
    {TypeId::kRunEndEncoded, "run_end_encoded", "+r", {0, {}, 0, 2}},
    {TypeId::kUtf8View, "utf8_view", "vu", kView},
    {TypeId::kBinaryView, "binary_view", "vz", kView},
    {TypeId::kListView, "list_view", "+vl", list_view(BufferKind::kListViewOffsets32, BufferKind::kListViewSizes32)},
    {TypeId::kLargeListView, "large_list_view", "+vL",
     list_view(BufferKind::kListViewOffsets64, BufferKind::kListViewSizes64)},
};
static_assert([] {
  for (int i = 0; i < kTypeCount; ++i) {
    if (static_cast<int>(kTypes[i].id) != i) return false;
  }
  return std::size(kTypes) == kTypeCount;
}());

/// Returns the entry of an existing type.
constexpr const TypeEntry& entry_of(TypeId id) noexcept { return kTypes[static_cast<std::size_t>(id)]; }

bool exists(const Type& type) noexcept { return static_cast<int>(type.id) < kTypeCount; }

const char* unit_name(TimeUnit unit) noexcept {
  constexpr const char* kNames[] = {"s", "ms", "us", "ns"};
  return unit <= TimeUnit::kNano ? kNames[static_cast<std::size_t>(unit)] : "?";
}

/// Returns the type ids of a union with `separator` between them.
std::string codes_text(const Type& type, const char* separator) {
  std::string text;
  for (const std::int8_t code : type.type_codes) text += (text.empty() ? "" : separator) + std::to_string(code);
  return text;
}

/// Returns the parameters as type_name() shows them, with their brackets.
std::string parameters_of(const Type& type) {
  switch (type.id) {
    case TypeId::kDecimal32:
    case TypeId::kDecimal64:
    case TypeId::kDecimal128:
    case TypeId::kDecimal256: return "(" + std::to_string(type.precision) + ", " + std::to_string(type.scale) + ")";
    case TypeId::kTime32:
    case TypeId::kTime64:
    case TypeId::kDuration: return std::string("[") + unit_name(type.unit) + "]";
    case TypeId::kTimestamp:
      return std::string("[") + unit_name(type.unit) +
             (type.timezone.empty() ? "]" : ", " + excerpt(type.timezone) + "]");
    case TypeId::kFixedSizeBinary:
    case TypeId::kFixedSizeList: return "[" + std::to_string(type.fixed_size) + "]";
    case TypeId::kMap: return type.keys_sorted ? "[keys sorted]" : "";
    case TypeId::kSparseUnion:
    case TypeId::kDenseUnion: return "[" + codes_text(type, ", ") + "]";
    default: return "";
  }
}

/// By TimeUnit.
constexpr std::string_view kUnits = "smun";

[[noreturn]] void throw_malformed(std::string_view format, const std::string& path, const char* expected) {
  throw_invalid(path, "format \"" + excerpt(format) + "\" is malformed; expected " + expected);
}

/// Reads one decimal integer up to `end` or a comma, and the comma. False if there is none or it doesn't fit.
bool take_int(std::string_view* text, std::int32_t* value) {
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(stop - text->data()));
  if (!text->empty()) {
    if (text->front() != ',') return false;
    text->remove_prefix(1);
    if (text->empty()) return false;
  }
  return true;
}

/// Reads a unit of time, which the type must have.
bool take_unit(std::string_view* text, Type* type) {
  const std::size_t unit = text->empty() ? kUnits.npos : kUnits.find(text->front());
  if (unit == kUnits.npos) return false;
  text->remove_prefix(1);
  type->unit = static_cast<TimeUnit>(unit);
  const bool is_coarse = type->unit <= TimeUnit::kMilli;
  return type->id == TypeId::kTime32 ? is_coarse : type->id != TypeId::kTime64 || !is_coarse;
}

/// Reads the parameters of `*type`, whose prefix the format has. Returns false if the format is another type's.
bool take_parameters(std::string_view format, const std::string& path, Type* type) {
  std::string_view rest = format.substr(entry_of(type->id).format.size());
  switch (type->id) {
    case TypeId::kDecimal32:
    case TypeId::kDecimal64:
    case TypeId::kDecimal128:
    case TypeId::kDecimal256: {
      std::int32_t bits = 128;
      if (!take_int(&rest, &type->precision) || rest.empty() || !take_int(&rest, &type->scale) ||
          (!rest.empty() && !take_int(&rest, &bits)) || !rest.empty() ||
          (bits != 32 && bits != 64 && bits != 128 && bits != 256)) {
        throw_malformed(format, path, "d:precision,scale or d:precision,scale,bits with 32, 64, 128 or 256 bits");
      }
      return bits == 8 * entry_of(type->id).layout.width;
    }
    case TypeId::kFixedSizeBinary:
    case TypeId::kFixedSizeList:
      if (!take_int(&rest, &type->fixed_size) || !rest.empty() || type->fixed_size < 0) {
        throw_malformed(format, path, "a size of 0 to 2147483647 after the colon");
      }
      return true;
    case TypeId::kSparseUnion:
    case TypeId::kDenseUnion:  // There are no type ids for a union without children.
      while (!rest.empty()) {
        std::int32_t code = 0;
        if (!take_int(&rest, &code) || code < 0 || code > std::numeric_limits<std::int8_t>::max()) {
          throw_malformed(format, path, "type ids of 0 to 127, with commas between, after the colon");
        }
        type->type_codes.push_back(static_cast<std::int8_t>(code));
      }
      return true;
    case TypeId::kTime32:
    case TypeId::kTime64:
    case TypeId::kDuration: return take_unit(&rest, type) && rest.empty();
    case TypeId::kTimestamp:
      if (!take_unit(&rest, type) || !rest.starts_with(':')) return false;
      type->timezone = rest.substr(1);
      return true;
    default: return rest.empty();
  }
}

}  // namespace

TypeLayout type_layout(const Type& type) noexcept {
  if (!exists(type)) return {};
  TypeLayout layout = entry_of(type.id).layout;
  if (type.id == TypeId::kFixedSizeBinary) layout.width = type.fixed_size;
  return layout;
}

std::string type_name(const Type& type) {
  if (!exists(type)) return "unknown type " + std::to_string(static_cast<int>(type.id));
  return std::string(entry_of(type.id).name) + parameters_of(type);
}

Type parse_format(std::string_view format, const std::string& path) {
  for (const TypeEntry& entry : kTypes) {
    if (!format.starts_with(entry.format)) continue;
    if (Type type{.id = entry.id}; take_parameters(format, path, &type)) return type;
  }
  throw UnsupportedTypeError(
      in_field(path) + ": its type (format \"" + excerpt(format) +
      "\") isn't a type of the Arrow columnar format; convert the column to another type, or leave it out");
}

std::string write_format(const Type& type) {
  const TypeEntry& entry = entry_of(type.id);
  std::string format(entry.format);
  switch (type.id) {
    case TypeId::kDecimal32:
    case TypeId::kDecimal64:
    case TypeId::kDecimal128:
    case TypeId::kDecimal256:
      format += std::to_string(type.precision) + "," + std::to_string(type.scale);
      return type.id == TypeId::kDecimal128 ? format : format + "," + std::to_string(8 * entry.layout.width);
    case TypeId::kFixedSizeBinary:
    case TypeId::kFixedSizeList: return format + std::to_string(type.fixed_size);
    case TypeId::kSparseUnion:
    case TypeId::kDenseUnion: return format + codes_text(type, ",");
    case TypeId::kTime32:
    case TypeId::kTime64:
    case TypeId::kDuration: return format + kUnits[static_cast<std::size_t>(type.unit)];
    case TypeId::kTimestamp: return format + kUnits[static_cast<std::size_t>(type.unit)] + ":" + type.timezone;
    default: return format;
  }
}

}  // namespace crossdock::array
