#include "crossdock/array/tensor.h"

#include <algorithm>
#include <charconv>

#include "core/bytes.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

struct Named {
  std::string_view name;
  TypeCode code;
  std::uint8_t bits;
};

constexpr Named kElementNames[] = {
    {"bool", TypeCode::kBool, 8},
    {"int8", TypeCode::kInt, 8},
    {"int16", TypeCode::kInt, 16},
    {"int32", TypeCode::kInt, 32},
    {"int64", TypeCode::kInt, 64},
    {"uint8", TypeCode::kUInt, 8},
    {"uint16", TypeCode::kUInt, 16},
    {"uint32", TypeCode::kUInt, 32},
    {"uint64", TypeCode::kUInt, 64},
    {"float16", TypeCode::kFloat, 16},
    {"float32", TypeCode::kFloat, 32},
    {"float64", TypeCode::kFloat, 64},
    {"complex32", TypeCode::kComplex, 32},
    {"complex64", TypeCode::kComplex, 64},
    {"complex128", TypeCode::kComplex, 128},
    {"bfloat16", TypeCode::kBfloat, 16},
    {"float8_e3m4", TypeCode::kFloat8E3m4, 8},
    {"float8_e4m3", TypeCode::kFloat8E4m3, 8},
    {"float8_e4m3b11fnuz", TypeCode::kFloat8E4m3b11fnuz, 8},
    {"float8_e4m3fn", TypeCode::kFloat8E4m3fn, 8},
    {"float8_e4m3fnuz", TypeCode::kFloat8E4m3fnuz, 8},
    {"float8_e5m2", TypeCode::kFloat8E5m2, 8},
    {"float8_e5m2fnuz", TypeCode::kFloat8E5m2fnuz, 8},
    {"float8_e8m0fnu", TypeCode::kFloat8E8m0fnu, 8},
    {"float6_e2m3fn", TypeCode::kFloat6E2m3fn, 6},
    {"float6_e3m2fn", TypeCode::kFloat6E3m2fn, 6},
    {"float4_e2m1fn", TypeCode::kFloat4E2m1fn, 4},
};

/// A kind of numbers, as typestrs name it.
struct Kind {
  char kind;
  TypeCode code;
};

constexpr Kind kKinds[] = {{'b', TypeCode::kBool},
                           {'i', TypeCode::kInt},
                           {'u', TypeCode::kUInt},
                           {'f', TypeCode::kFloat},
                           {'c', TypeCode::kComplex}};

std::string in_quotes(std::string_view text) { return "\"" + excerpt(text) + "\""; }

[[noreturn]] void fail_typestr(std::string_view typestr, const char* why) {
  throw InvalidArgumentError("the typestr " + in_quotes(typestr) + " " + why);
}

/// The parts of a typestr.
struct Parts {
  char order;
  char kind;
  std::int64_t size;      // as written
  std::string_view unit;  // with its brackets, or empty
};

Parts parts_of(std::string_view typestr) {
  if (typestr.size() < 3) fail_typestr(typestr, "must be a byte order, a kind and a size, as in \"<f4\"");
  Parts parts{.order = typestr[0], .kind = typestr[1], .size = 0, .unit = {}};
  if (std::string_view("<>|=").find(parts.order) == std::string_view::npos) {
    fail_typestr(typestr, "must begin with a byte order: '<', '>' or '|'");
  }
  const char* const end = typestr.data() + typestr.size();
  const auto [rest, error] = std::from_chars(typestr.data() + 2, end, parts.size);
  if (error != std::errc{} || typestr[2] == '-') fail_typestr(typestr, "has no size after its kind");
  parts.unit = std::string_view(rest, static_cast<std::size_t>(end - rest));
  const bool dated = parts.kind == 'm' || parts.kind == 'M';
  const bool bracketed = parts.unit.size() > 2 && parts.unit.front() == '[' && parts.unit.back() == ']';
  if (!parts.unit.empty() && !(dated && bracketed)) fail_typestr(typestr, "has extra characters after its size");
  return parts;
}

/// `unit` includes its brackets: one of NumPy's units, with an optional multiplier ("[25s]"). An empty unit is NumPy's
/// generic unit.
bool is_date_unit(std::string_view unit) noexcept {
  if (unit.empty()) return true;
  unit = unit.substr(1, unit.size() - 2);
  const std::size_t digits = std::min(unit.find_first_not_of("0123456789"), unit.size());
  if (digits > 0 && unit.front() == '0') return false;
  unit.remove_prefix(digits);
  for (const std::string_view known : {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"}) {
    if (unit == known) return true;
  }
  return digits == 0 && unit == "generic";
}

ElementType described(std::string_view typestr, std::int64_t itemsize, std::vector<DescrField> fields = {}) {
  return {.code = TypeCode::kOpaque,
          .bits = 8,
          .described = std::make_shared<const DescribedType>(
              DescribedType{.typestr = std::string(typestr), .fields = std::move(fields), .itemsize = itemsize})};
}

bool one_of(std::int64_t size, std::initializer_list<std::int64_t> sizes) noexcept {
  return std::ranges::find(sizes, size) != sizes.end();
}

/// True if a typestr of this kind and size is a number with the same format on every machine. Other sizes that a
/// TypeCode may have appear in no typestr: for example a float of 128 bits, which NumPy would take for the machine's
/// long double.
bool has_number(char kind, std::int64_t size) noexcept {
  switch (kind) {
    case 'b': return size == 1;
    case 'i':
    case 'u': return one_of(size, {1, 2, 4, 8});
    case 'f': return one_of(size, {2, 4, 8});
    case 'c': return one_of(size, {8, 16});
    default: return false;
  }
}

std::int64_t itemsize_of(const std::vector<DescrField>& fields);

std::int64_t itemsize_of(const DescrField& field) {
  if (field.typestr.empty() == field.fields.empty()) {
    throw InvalidArgumentError("the descr's field " + in_quotes(field.name) + " has no type");
  }
  std::int64_t size = field.typestr.empty() ? itemsize_of(field.fields) : parse_typestr(field.typestr).itemsize();
  for (const std::int64_t extent : field.shape) {
    if (extent < 0 || !checked_multiply(size, extent, &size)) {
      throw InvalidArgumentError("the descr's field " + in_quotes(field.name) + " has an invalid shape");
    }
  }
  return size;
}

std::int64_t itemsize_of(const std::vector<DescrField>& fields) {
  std::int64_t sum = 0;
  for (const DescrField& field : fields) {
    if (!checked_add(sum, itemsize_of(field), &sum)) throw InvalidArgumentError("the descr's sizes overflow");
  }
  return sum;
}

}  // namespace

bool ElementType::operator==(const ElementType& other) const noexcept {
  if (code != other.code || bits != other.bits || lanes != other.lanes || swapped != other.swapped ||
      padded != other.padded || (described == nullptr) != (other.described == nullptr)) {
    return false;
  }
  return described == other.described || *described == *other.described;
}

std::string element_type_name(const ElementType& type) {
  if (type.described) return type.described->typestr;
  if (type.swapped) return typestr_of(type);
  std::string name;
  for (const Named& named : kElementNames) {
    if (named.code == type.code && named.bits == type.bits) name = named.name;
  }
  if (name.empty()) {
    name = "DLPack type " + std::to_string(static_cast<int>(type.code)) + " of " + std::to_string(type.bits) + " bits";
  }
  if (type.lanes != 1) name += "x" + std::to_string(type.lanes);
  return name;
}

std::string typestr_of(const ElementType& type) {
  if (type.described) return type.described->typestr;
  if (type.lanes != 1 || type.bits % 8 != 0) return {};
  const Kind* const known = std::ranges::find(kKinds, type.code, &Kind::code);
  const char kind = known != std::end(kKinds) ? known->kind : '\0';
  const int bytes = type.bits / 8;
  if (!has_number(kind, bytes)) return {};
  std::string typestr;
  typestr += bytes == 1 ? '|' : type.swapped ? '>' : '<';
  typestr += kind;
  return typestr + std::to_string(bytes);
}

ElementType parse_typestr(std::string_view typestr) {
  const Parts parts = parts_of(typestr);
  if (has_number(parts.kind, parts.size)) {
    const TypeCode code = std::ranges::find(kKinds, parts.kind, &Kind::kind)->code;
    return {.code = code,
            .bits = static_cast<std::uint8_t>(8 * parts.size),
            .swapped = parts.order == '>' && parts.size > 1};
  }
  switch (parts.kind) {
    case 'b': fail_typestr(typestr, "names a bool whose size isn't 1 byte");
    case 'i':
    case 'u': fail_typestr(typestr, "names an integer that isn't of 1, 2, 4 or 8 bytes");
    case 'f':
      // The format of a float of 10 to 16 bytes depends on the machine: it is carried, not interpreted.
      if (!one_of(parts.size, {10, 12, 16})) fail_typestr(typestr, "names a float of an unknown size");
      return described(typestr, parts.size);
    case 'c':
      if (!one_of(parts.size, {20, 24, 32})) fail_typestr(typestr, "names a complex number of an unknown size");
      return described(typestr, parts.size);
    case 'm':
    case 'M':
      if (parts.size != 8) fail_typestr(typestr, "names a date or duration whose size isn't 8 bytes");
      if (!is_date_unit(parts.unit)) fail_typestr(typestr, "names an unknown unit of time");
      return described(typestr, parts.size);
    case 'S':
    case 'V':
      // Bytes have no order: "<V4", "=V4" and "|V4" are one type.
      return described("|" + std::string(typestr.substr(1)), parts.size);
    case 'U': {
      std::int64_t bytes = 0;
      if (!checked_multiply<std::int64_t>(parts.size, 4, &bytes)) fail_typestr(typestr, "is too large");
      return described(typestr, bytes);
    }
    case 'O':
      throw UnsupportedTypeError(
          "the typestr " + in_quotes(typestr) +
          " names Python objects, which can't be used outside their interpreter; convert them to numbers or bytes");
    case 't':
      throw UnsupportedTypeError("the typestr " + in_quotes(typestr) +
                                 " names a bit field; give each bit a byte (\"|b1\") instead");
    default: fail_typestr(typestr, "has an unknown kind; the kinds are b i u f c m M S U V");
  }
}

ElementType structured_type(std::string_view typestr, std::vector<DescrField> fields) {
  const Parts parts = parts_of(typestr);
  const std::int64_t bytes = itemsize_of(fields);
  // A descr of one field without a name is equivalent to the typestr.
  const bool plain = fields.size() == 1 && fields[0].name.empty() && fields[0].shape.empty();
  if (plain && fields[0].typestr == typestr) return parse_typestr(typestr);
  if (parts.kind != 'V') {
    parse_typestr(typestr);  // errors in the typestr itself come first
    throw InvalidArgumentError("the typestr " + in_quotes(typestr) +
                               " and the descr disagree: only a typestr of kind 'V' (bytes) has fields");
  }
  if (bytes != parts.size) {
    throw InvalidArgumentError("the typestr " + in_quotes(typestr) +
                               " and the descr disagree: the descr's fields have " + std::to_string(bytes) + " bytes");
  }
  return described(typestr, parts.size, std::move(fields));
}

ElementType parse_element_type(std::string_view name) {
  for (const Named& named : kElementNames) {
    if (named.name == name) return {.code = named.code, .bits = named.bits, .padded = named.bits < 8};
  }
  const std::string_view orders = "<>|=";
  const bool ordered = !name.empty() && orders.find(name.front()) != std::string_view::npos;
  try {
    return parse_typestr(ordered ? std::string(name) : "<" + std::string(name));
  } catch (const InvalidArgumentError&) {
    std::string what =
        "unknown element type " + in_quotes(name) + "; use a typestr, as in \"f4\" or \"<i8\", or one of";
    for (const Named& named : kElementNames) what.append(" ").append(named.name);
    throw InvalidArgumentError(what);
  }
}

}  // namespace crossdock::array
