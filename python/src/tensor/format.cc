#include "format.h"

#include <cstring>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::python {
namespace {

using array::ElementType;
using array::TypeCode;

struct Known {
  TypeCode code;
  std::uint8_t bytes;
};

/// Returns the type of a format of one character. `native`: sizes are those of C on this machine, else the standard
/// ones of the module struct.
std::optional<Known> number_of(char character, bool native) noexcept {
  switch (character) {
    case '?': return Known{TypeCode::kBool, 1};
    case 'b': return Known{TypeCode::kInt, 1};
    case 'B': return Known{TypeCode::kUInt, 1};
    case 'h': return Known{TypeCode::kInt, 2};
    case 'H': return Known{TypeCode::kUInt, 2};
    case 'i': return Known{TypeCode::kInt, 4};
    case 'I': return Known{TypeCode::kUInt, 4};
    case 'l': return Known{TypeCode::kInt, native ? std::uint8_t{sizeof(long)} : std::uint8_t{4}};
    case 'L': return Known{TypeCode::kUInt, native ? std::uint8_t{sizeof(long)} : std::uint8_t{4}};
    case 'q': return Known{TypeCode::kInt, 8};
    case 'Q': return Known{TypeCode::kUInt, 8};
    case 'n': return Known{TypeCode::kInt, sizeof(std::ptrdiff_t)};
    case 'N': return Known{TypeCode::kUInt, sizeof(std::size_t)};
    case 'e': return Known{TypeCode::kFloat, 2};
    case 'f': return Known{TypeCode::kFloat, 4};
    case 'd': return Known{TypeCode::kFloat, 8};
    default: return std::nullopt;
  }
}

ElementType make(const Known& known, bool swapped) {
  ElementType type;
  type.code = known.code;
  type.bits = static_cast<std::uint8_t>(8 * known.bytes);
  type.swapped = swapped && known.bytes > 1;
  return type;
}

ElementType bytes_of(std::int64_t itemsize) { return array::parse_typestr("|S" + std::to_string(itemsize)); }

ElementType untyped(std::int64_t itemsize) { return array::parse_typestr("|V" + std::to_string(itemsize)); }

/// Returns the type of a text of `itemsize` bytes, with 4 bytes per code point.
ElementType text_of(std::int64_t itemsize, bool swapped) {
  return array::parse_typestr((swapped ? ">U" : "<U") + std::to_string(itemsize / 4));
}

/// Handles all formats but those of one number whose size is the buffer's. `rest`: the format without its byte order.
[[gnu::noinline]] std::optional<ElementType> uncommon_type(const char* format, const char* rest, bool native,
                                                           bool swapped, std::int64_t itemsize) {
  std::optional<ElementType> type;
  const std::size_t length = std::strlen(rest);
  if (const auto known = length == 1 ? number_of(*rest, native) : std::nullopt) {
    type = make(*known, swapped);
  } else if (const char* const last = rest + (*rest == '^' ? 1 : 0);  // '^': native sizes without alignment
             native && (std::strcmp(last, "g") == 0 || std::strcmp(last, "Zg") == 0)) {
    type = array::parse_typestr((*last == 'g' ? "<f" : "<c") +
                                std::to_string((*last == 'g' ? 1 : 2) * sizeof(long double)));
  } else if (length == 2 && rest[0] == 'Z') {
    if (auto part = number_of(rest[1], native); part && part->code == TypeCode::kFloat && part->bytes >= 4) {
      type = make({TypeCode::kComplex, static_cast<std::uint8_t>(2 * part->bytes)}, swapped);
    }
  } else if (length > 0 && (rest[length - 1] == 's' || rest[length - 1] == 'c') &&
             std::strspn(rest, "0123456789") == length - 1) {
    type = bytes_of(itemsize);
  } else if (length > 0 && (rest[length - 1] == 'w' || rest[length - 1] == 'x') &&
             std::strspn(rest, "0123456789") == length - 1) {
    type = rest[length - 1] == 'x' ? untyped(itemsize) : text_of(itemsize, swapped);
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
  if (rest[0] != '\0' && rest[1] == '\0') {
    if (const auto known = number_of(*rest, native); known && known->bytes == itemsize) [[likely]]
      return make(*known, swapped);
  }
  return uncommon_type(format, rest, native, swapped, itemsize);
}

const char* format_of_type(const ElementType& type) noexcept {
  if (type.described || type.lanes != 1) return nullptr;
  const auto pick = [&](const char* native, const char* swapped) { return type.swapped ? swapped : native; };
  switch (type.code) {
    case TypeCode::kBool: return type.bits == 8 ? "?" : nullptr;
    case TypeCode::kInt:
      switch (type.bits) {
        case 8: return "b";
        case 16: return pick("h", ">h");
        case 32: return pick("i", ">i");
        case 64: return pick(sizeof(long) == 8 ? "l" : "q", ">q");
        default: return nullptr;
      }
    case TypeCode::kUInt:
      switch (type.bits) {
        case 8: return "B";
        case 16: return pick("H", ">H");
        case 32: return pick("I", ">I");
        case 64: return pick(sizeof(long) == 8 ? "L" : "Q", ">Q");
        default: return nullptr;
      }
    case TypeCode::kFloat:
      switch (type.bits) {
        case 16: return pick("e", ">e");
        case 32: return pick("f", ">f");
        case 64: return pick("d", ">d");
        default: return nullptr;
      }
    case TypeCode::kComplex:
      switch (type.bits) {
        case 64: return pick("Zf", ">Zf");
        case 128: return pick("Zd", ">Zd");
        default: return nullptr;
      }
    default: return nullptr;
  }
}

}  // namespace crossdock::python
