#include "format.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::python {
namespace {

using array::ElementType;
using array::TypeCode;

/// The format of a number.
struct KnownFormat {
  const char* swapped;  ///< The format in the other byte order. Without its '>': in this machine's.
  TypeCode code;
  std::uint8_t bytes;           ///< The standard size, of the module struct.
  std::uint8_t native = bytes;  ///< The size in C on this machine.

  int size(bool in_c) const noexcept { return in_c ? native : bytes; }
  ElementType type(bool in_c, bool is_swapped) const noexcept {
    ElementType type;
    type.code = code;
    type.bits = static_cast<std::uint8_t>(8 * size(in_c));
    type.swapped = is_swapped && size(in_c) > 1;
    return type;
  }
};

/// The most common ones first. Where several stand for a type, the first is written.
constexpr KnownFormat kNumbers[] = {
    {">d", TypeCode::kFloat, 8},
    {">f", TypeCode::kFloat, 4},
    {">i", TypeCode::kInt, 4},
    {">l", TypeCode::kInt, 4, sizeof(long)},
    {">q", TypeCode::kInt, 8},
    {">B", TypeCode::kUInt, 1},
    {">?", TypeCode::kBool, 1},
    {">I", TypeCode::kUInt, 4},
    {">L", TypeCode::kUInt, 4, sizeof(long)},
    {">Q", TypeCode::kUInt, 8},
    {">b", TypeCode::kInt, 1},
    {">h", TypeCode::kInt, 2},
    {">H", TypeCode::kUInt, 2},
    {">e", TypeCode::kFloat, 2},
    {">Zf", TypeCode::kComplex, 8},
    {">Zd", TypeCode::kComplex, 16},
    {">n", TypeCode::kInt, sizeof(std::ptrdiff_t)},
    {">N", TypeCode::kUInt, sizeof(std::size_t)},
};

const KnownFormat* known_format(const char* rest) noexcept {
  for (const KnownFormat& known : kNumbers) {
    if (known.swapped[1] != *rest) continue;
    // Most formats have one character: without a call for them.
    if (rest[1] == '\0' ? known.swapped[2] == '\0' : std::strcmp(known.swapped + 1, rest) == 0) return &known;
  }
  return nullptr;
}

const KnownFormat* known_type(const ElementType& type, bool in_c) noexcept {
  if (type.described || type.lanes != 1) return nullptr;
  const auto* const found = std::ranges::find_if(
      kNumbers, [&](const KnownFormat& known) { return known.code == type.code && 8 * known.size(in_c) == type.bits; });
  return found != std::end(kNumbers) ? found : nullptr;
}

ElementType bytes_of(std::int64_t itemsize) { return array::parse_typestr("|S" + std::to_string(itemsize)); }

ElementType untyped(std::int64_t itemsize) { return array::parse_typestr("|V" + std::to_string(itemsize)); }

/// Returns the type of a text of `itemsize` bytes, with 4 bytes per code point.
ElementType text_type(std::int64_t itemsize, bool swapped) {
  return array::parse_typestr((swapped ? ">U" : "<U") + std::to_string(itemsize / 4));
}

/// Handles all formats but those of a number whose size is the buffer's. `rest`: the format without its byte order.
[[gnu::noinline]] std::optional<ElementType> uncommon_type(const char* format, const char* rest, bool native,
                                                           bool swapped, std::int64_t itemsize) {
  std::optional<ElementType> type;
  const std::size_t length = std::strlen(rest);
  if (const KnownFormat* const known = known_format(rest)) {
    type = known->type(native, swapped);
  } else if (const char* const last = rest + (*rest == '^' ? 1 : 0);  // '^': native sizes without alignment
             native && (std::strcmp(last, "g") == 0 || std::strcmp(last, "Zg") == 0)) {
    type = array::parse_typestr((*last == 'g' ? "<f" : "<c") +
                                std::to_string((*last == 'g' ? 1 : 2) * sizeof(long double)));
  } else if (length > 0 && (rest[length - 1] == 's' || rest[length - 1] == 'c') &&
             std::strspn(rest, "0123456789") == length - 1) {
    type = bytes_of(itemsize);
  } else if (length > 0 && (rest[length - 1] == 'w' || rest[length - 1] == 'x') &&
             std::strspn(rest, "0123456789") == length - 1) {
    type = rest[length - 1] == 'x' ? untyped(itemsize) : text_type(itemsize, swapped);
  } else if (*rest == 'O' || *rest == 'P' || *rest == '&') {
    throw UnsupportedTypeError("a buffer of format \"" + std::string(format) +
                               "\" has Python objects or pointers, which can't be used outside their process");
  }
  if (type && type->itemsize() != itemsize) {
    // ctypes uses the format of a byte for packed structures and unions.
    if (itemsize > 1 && type->itemsize() == 1) {
      throw UnsupportedTypeError("a buffer has the format \"" + std::string(rest) + "\" for elements of " +
                                 std::to_string(itemsize) +
                                 " bytes, as packed structures and unions of ctypes do, so their type is unknown; view "
                                 "them as bytes, or describe them by NumPy's dtype");
    }
    throw InvalidDataError("the elements of a buffer have " + std::to_string(itemsize) + " bytes, but its format \"" +
                           std::string(rest) + "\" has " + std::to_string(type->itemsize()));
  }
  return type;
}

}  // namespace

std::optional<ElementType> type_of_format(const char* format, std::int64_t itemsize) {
  const char* rest = format == nullptr ? "B" : format;
  bool native = true;
  bool swapped = false;
  switch (*rest) {
    case '@': ++rest; break;
    case '=':
    case '<': native = false, ++rest; break;
    case '>':
    case '!': native = false, swapped = true, ++rest; break;
    default: break;
  }
  if (const KnownFormat* const known = known_format(rest); known != nullptr && known->size(native) == itemsize)
      [[likely]]
    return known->type(native, swapped);
  return uncommon_type(format, rest, native, swapped, itemsize);
}

const char* format_of_type(const ElementType& type) noexcept {
  const KnownFormat* const known = known_type(type, !type.swapped);
  return known == nullptr ? nullptr : known->swapped + (type.swapped ? 0 : 1);
}

const char* format_of_number(const ElementType& type, bool in_c) noexcept {
  const KnownFormat* const known = known_type(type, in_c);
  return known == nullptr ? nullptr : known->swapped + 1;
}

}  // namespace crossdock::python
