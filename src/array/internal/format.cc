#include "array/internal/format.h"

#include <charconv>
#include <limits>

#include "array/internal/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

struct Simple {
  std::string_view format;
  TypeId id;
  TimeUnit unit = TimeUnit::kSecond;
};

/// The formats without parameters, for both directions. Timestamps are listed with their prefix up to the timezone.
constexpr Simple kSimple[] = {
    {"n", TypeId::kNull},
    {"b", TypeId::kBool},
    {"c", TypeId::kInt8},
    {"C", TypeId::kUInt8},
    {"s", TypeId::kInt16},
    {"S", TypeId::kUInt16},
    {"i", TypeId::kInt32},
    {"I", TypeId::kUInt32},
    {"l", TypeId::kInt64},
    {"L", TypeId::kUInt64},
    {"e", TypeId::kFloat16},
    {"f", TypeId::kFloat32},
    {"g", TypeId::kFloat64},
    {"z", TypeId::kBinary},
    {"Z", TypeId::kLargeBinary},
    {"u", TypeId::kUtf8},
    {"U", TypeId::kLargeUtf8},
    {"tdD", TypeId::kDate32},
    {"tdm", TypeId::kDate64},
    {"tts", TypeId::kTime32, TimeUnit::kSecond},
    {"ttm", TypeId::kTime32, TimeUnit::kMilli},
    {"ttu", TypeId::kTime64, TimeUnit::kMicro},
    {"ttn", TypeId::kTime64, TimeUnit::kNano},
    {"tDs", TypeId::kDuration, TimeUnit::kSecond},
    {"tDm", TypeId::kDuration, TimeUnit::kMilli},
    {"tDu", TypeId::kDuration, TimeUnit::kMicro},
    {"tDn", TypeId::kDuration, TimeUnit::kNano},
    {"tss:", TypeId::kTimestamp, TimeUnit::kSecond},
    {"tsm:", TypeId::kTimestamp, TimeUnit::kMilli},
    {"tsu:", TypeId::kTimestamp, TimeUnit::kMicro},
    {"tsn:", TypeId::kTimestamp, TimeUnit::kNano},
    {"+l", TypeId::kList},
    {"+L", TypeId::kLargeList},
    {"+s", TypeId::kStruct},
    {"+m", TypeId::kMap},
    {"tiM", TypeId::kIntervalMonths},
    {"tiD", TypeId::kIntervalDayTime},
    {"tin", TypeId::kIntervalMonthDayNano},
    {"vu", TypeId::kUtf8View},
    {"vz", TypeId::kBinaryView},
    {"+vl", TypeId::kListView},
    {"+vL", TypeId::kLargeListView},
    {"+r", TypeId::kRunEndEncoded},
};

[[noreturn]] void throw_malformed(std::string_view format, const std::string& path, const char* expected) {
  throw InvalidDataError(in_field(path) + ": format \"" + printable(format) + "\" is malformed; expected " + expected);
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

Type parse_decimal(std::string_view format, const std::string& path) {
  constexpr char kExpected[] = "d:precision,scale or d:precision,scale,bits with 32, 64, 128 or 256 bits";
  std::string_view rest = format.substr(2);
  Type type;
  std::int32_t bits = 128;
  if (!take_int(&rest, &type.precision) || rest.empty() || !take_int(&rest, &type.scale)) {
    throw_malformed(format, path, kExpected);
  }
  if (!rest.empty() && (!take_int(&rest, &bits) || !rest.empty())) throw_malformed(format, path, kExpected);
  switch (bits) {
    case 32: type.id = TypeId::kDecimal32; break;
    case 64: type.id = TypeId::kDecimal64; break;
    case 128: type.id = TypeId::kDecimal128; break;
    case 256: type.id = TypeId::kDecimal256; break;
    default: throw_malformed(format, path, kExpected);
  }
  return type;
}

Type parse_fixed_size(TypeId id, std::string_view format, std::size_t prefix, const std::string& path) {
  std::string_view rest = format.substr(prefix);
  Type type;
  type.id = id;
  if (!take_int(&rest, &type.fixed_size) || !rest.empty() || type.fixed_size < 0) {
    throw_malformed(format, path, "a size of 0 to 2147483647 after the colon");
  }
  return type;
}

/// Reads the type ids of a union's children after the colon; there are none for a union without children.
Type parse_union(TypeId id, std::string_view format, const std::string& path) {
  std::string_view rest = format.substr(4);
  Type type;
  type.id = id;
  while (!rest.empty()) {
    std::int32_t code = 0;
    if (!take_int(&rest, &code) || code < 0 || code > std::numeric_limits<std::int8_t>::max()) {
      throw_malformed(format, path, "type ids of 0 to 127, with commas between, after the colon");
    }
    type.type_codes.push_back(static_cast<std::int8_t>(code));
  }
  return type;
}

std::string write_union(const char* prefix, const Type& type) {
  std::string out = prefix;
  for (std::size_t i = 0; i < type.type_codes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(type.type_codes[i]);
  }
  return out;
}

}  // namespace

Type parse_format(std::string_view format, const std::string& path) {
  if (format.starts_with("d:")) return parse_decimal(format, path);
  if (format.starts_with("w:")) return parse_fixed_size(TypeId::kFixedSizeBinary, format, 2, path);
  if (format.starts_with("+w:")) return parse_fixed_size(TypeId::kFixedSizeList, format, 3, path);
  if (format.starts_with("+us:")) return parse_union(TypeId::kSparseUnion, format, path);
  if (format.starts_with("+ud:")) return parse_union(TypeId::kDenseUnion, format, path);
  for (const Simple& entry : kSimple) {
    const bool timestamp = entry.id == TypeId::kTimestamp;
    if (timestamp ? format.starts_with(entry.format) : format == entry.format) {
      Type type;
      type.id = entry.id;
      type.unit = entry.unit;
      if (timestamp) type.timezone = format.substr(entry.format.size());
      return type;
    }
  }
  throw UnsupportedTypeError(
      in_field(path) + ": its type (format \"" + printable(format) +
      "\") isn't a type of the Arrow columnar format; convert the column to another type, or leave it out");
}

std::string write_format(const Type& type) {
  std::string decimal = "d:" + std::to_string(type.precision) + "," + std::to_string(type.scale);
  switch (type.id) {
    case TypeId::kDecimal32: return decimal + ",32";
    case TypeId::kDecimal64: return decimal + ",64";
    case TypeId::kDecimal128: return decimal;
    case TypeId::kDecimal256: return decimal + ",256";
    case TypeId::kFixedSizeBinary: return "w:" + std::to_string(type.fixed_size);
    case TypeId::kFixedSizeList: return "+w:" + std::to_string(type.fixed_size);
    case TypeId::kSparseUnion: return write_union("+us:", type);
    case TypeId::kDenseUnion: return write_union("+ud:", type);
    default: break;
  }
  const bool has_unit = type.id == TypeId::kTime32 || type.id == TypeId::kTime64 || type.id == TypeId::kTimestamp ||
                        type.id == TypeId::kDuration;
  for (const Simple& entry : kSimple) {
    if (entry.id == type.id && (!has_unit || entry.unit == type.unit)) {
      return std::string(entry.format) + (type.id == TypeId::kTimestamp ? type.timezone : std::string());
    }
  }
  return {};
}

}  // namespace crossdock::array
