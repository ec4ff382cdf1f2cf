#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"

namespace crossdock::array {

/// DLPack's type codes for the elements of a tensor. The number kinds of Arrow and NumPy map to them.
enum class TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaque = 3,  ///< Bytes that DLPack has no code for: see ElementType::described.
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,  ///< A byte per element, 0 or 1.
  kFloat8E3m4 = 7,
  kFloat8E4m3 = 8,
  kFloat8E4m3b11fnuz = 9,
  kFloat8E4m3fn = 10,
  kFloat8E4m3fnuz = 11,
  kFloat8E5m2 = 12,
  kFloat8E5m2fnuz = 13,
  kFloat8E8m0fnu = 14,
  kFloat6E2m3fn = 15,
  kFloat6E3m2fn = 16,
  kFloat4E2m1fn = 17,
};

/// One field of a structured element type, as a `descr` of NumPy's array interface lists it. A plain value.
struct DescrField {
  std::string name{};
  std::string title{};                ///< Empty if it has none.
  std::string typestr{};              ///< Empty if `fields` gives the type.
  std::vector<DescrField> fields{};   ///< Fields of a nested structure.
  std::vector<std::int64_t> shape{};  ///< Shape of a nested array; empty for one element.
  bool operator==(const DescrField&) const = default;
};

/// An element type that DLPack can't describe: structured, text, dates, or any other type that only a typestr names.
/// Immutable once made; shared.
struct DescribedType {
  std::string typestr;             ///< As in "|V12", "<M8[ns]", "|S5", with its byte order.
  std::vector<DescrField> fields;  ///< Fields of a structured type; empty for other types.
  std::int64_t itemsize = 0;       ///< Bytes.
  bool operator==(const DescribedType&) const = default;
};

/// The type of a tensor's elements. A plain value.
struct ElementType {
  TypeCode code = TypeCode::kFloat;
  std::uint8_t bits = 64;   ///< Of one lane.
  std::uint16_t lanes = 1;  ///< 1 for everything but vectors.
  /// Big-endian, if the byte order matters for the type. Interfaces that can express it carry it; others refuse it.
  bool swapped = false;
  /// Elements smaller than a byte, each stored in one byte (DLPack's flag).
  bool padded = false;
  /// For kOpaque elements that came with a typestr; null otherwise.
  std::shared_ptr<const DescribedType> described{};

  /// Returns the bytes from one element to the next. Elements smaller than a byte count as one byte each: they are
  /// `padded`, or have several lanes together; import refuses others.
  std::int64_t itemsize() const noexcept {
    if (described) [[unlikely]]
      return described->itemsize;
    return (std::int64_t{bits} * lanes + 7) / 8;
  }
  CROSSDOCK_EXPORT bool operator==(const ElementType& other) const noexcept;
};

/// Returns the name of a type: "float32", "bool", "bfloat16", "float8_e4m3fn"; ">i4" if it is big-endian; "float32x4"
/// with lanes; else the typestr.
CROSSDOCK_EXPORT std::string element_type_name(const ElementType& type);

/// Returns the typestr of NumPy's array interface and the CUDA Array Interface, as in "<f4". Empty for types without a
/// typestr: bfloat16 and the smaller floats, and vectors.
CROSSDOCK_EXPORT std::string typestr_of(const ElementType& type);

/// Reads a typestr: byte order ('<', '>', '|', '='), kind (b i u f c m M O S U V t), size in bytes (for 't' in bits),
/// and a unit in brackets for m and M. Kinds other than numbers and bool become kOpaque, with `described` set. Throws
/// InvalidArgumentError, which quotes the typestr; UnsupportedTypeError for Python objects ('O') and bit fields ('t').
CROSSDOCK_EXPORT ElementType parse_typestr(std::string_view typestr);

/// Returns the structured type of a descr. The sizes of its fields must add up to the size in `typestr`. Throws
/// InvalidArgumentError, which says where they disagree; UnsupportedTypeError for Python objects inside.
CROSSDOCK_EXPORT ElementType structured_type(std::string_view typestr, std::vector<DescrField> fields);

/// Reads the name of a type in a common form: "float32", "f4", "<f4", "bool", "bfloat16". Throws InvalidArgumentError,
/// which lists the known names.
CROSSDOCK_EXPORT ElementType parse_element_type(std::string_view name);

}  // namespace crossdock::array
