#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/memory.h"

namespace crossdock::array {

/// DLPack's type codes for the elements of a tensor. The number kinds of Arrow and NumPy map to them.
enum class TypeCode : std::uint8_t {
  kInt = 0,                ///< Signed, two's complement.
  kUInt = 1,               ///< Unsigned.
  kFloat = 2,              ///< IEEE 754: 16, 32, 64 bits, or the machine's longer ones.
  kOpaque = 3,             ///< Bytes that DLPack has no code for: see ElementType::described.
  kBfloat = 4,             ///< The upper 16 bits of a float of 32 bits.
  kComplex = 5,            ///< Two floats, the real part first; `bits` are those of both.
  kBool = 6,               ///< A byte per element, 0 or 1.
  kFloat8E3m4 = 7,         ///< 8 bits: 3 of the exponent, 4 of the fraction; infinities and NaNs as in IEEE 754.
  kFloat8E4m3 = 8,         ///< 4 and 3 bits, likewise.
  kFloat8E4m3b11fnuz = 9,  ///< 4 and 3 bits, bias 11; no infinities, one zero, one NaN.
  kFloat8E4m3fn = 10,      ///< 4 and 3 bits; no infinities.
  kFloat8E4m3fnuz = 11,    ///< 4 and 3 bits; no infinities, one zero, one NaN.
  kFloat8E5m2 = 12,        ///< 5 and 2 bits; infinities and NaNs as in IEEE 754.
  kFloat8E5m2fnuz = 13,    ///< 5 and 2 bits; no infinities, one zero, one NaN.
  kFloat8E8m0fnu = 14,     ///< 8 and 0 bits: powers of two without a sign, and one NaN.
  kFloat6E2m3fn = 15,      ///< 6 bits: 2 and 3; neither infinities nor NaNs.
  kFloat6E3m2fn = 16,      ///< 6 bits: 3 and 2; neither infinities nor NaNs.
  kFloat4E2m1fn = 17,      ///< 4 bits: 2 and 1; neither infinities nor NaNs.
};

/// One field of a structured element type, as a `descr` of NumPy's array interface lists it. A plain value.
struct DescrField {
  std::string name{};                 ///< May be empty, as that of padding is.
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
  TypeCode code = TypeCode::kFloat;  ///< The kind of number.
  std::uint8_t bits = 64;            ///< Of one lane.
  std::uint16_t lanes = 1;           ///< 1 for everything but vectors.
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
  /// Compares all members, `described` by its content.
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

/// Maximum number of dimensions of a tensor, the same as NumPy's.
inline constexpr std::int32_t kMaxTensorDimensions = 64;

/// A tensor's shape, and its strides in bytes. Up to 8 dimensions are stored in the object itself, so that a hand-over
/// of a tensor allocates nothing for them. A plain value: two arrays of equal length. One that was moved from has no
/// dimensions.
class Extents {
 public:
  static constexpr std::int32_t kInline = 8;  ///< Dimensions without an allocation.

  /// Makes extents without dimensions: those of one element.
  Extents() noexcept = default;
  /// Makes extents of `ndim` dimensions, 0 to kMaxTensorDimensions, and doesn't set their values.
  explicit Extents(std::int32_t ndim) : ndim_(ndim) {
    if (ndim > kInline) [[unlikely]]
      heap_ = new std::int64_t[2 * static_cast<std::size_t>(ndim)];
  }
  Extents(const Extents& other) : Extents(other.ndim_) { copy(other); }
  Extents(Extents&& other) noexcept : ndim_(other.ndim_), heap_(std::exchange(other.heap_, nullptr)) {
    if (heap_ == nullptr) copy(other);
    other.ndim_ = 0;
  }
  Extents& operator=(const Extents& other) {
    if (this != &other) *this = Extents(other);
    return *this;
  }
  Extents& operator=(Extents&& other) noexcept {
    if (this == &other) return *this;
    ndim_ = other.ndim_;
    delete[] std::exchange(heap_, std::exchange(other.heap_, nullptr));
    if (heap_ == nullptr) copy(other);
    other.ndim_ = 0;
    return *this;
  }
  ~Extents() { delete[] heap_; }

  /// The number of dimensions.
  std::int32_t ndim() const noexcept { return ndim_; }
  /// The elements of each dimension, for writing. Valid, as all spans here, until the object is assigned to or moved.
  std::span<std::int64_t> shape() noexcept { return {first(), size()}; }
  /// The elements of each dimension.
  std::span<const std::int64_t> shape() const noexcept { return {first(), size()}; }
  /// The bytes from one element of each dimension to the next, for writing; they may be negative or 0.
  std::span<std::int64_t> strides() noexcept { return {first() + size(), size()}; }
  /// The bytes from one element of each dimension to the next.
  std::span<const std::int64_t> strides() const noexcept { return {first() + size(), size()}; }

 private:
  std::size_t size() const noexcept { return static_cast<std::size_t>(ndim_); }
  std::int64_t* first() noexcept { return heap_ != nullptr ? heap_ : inline_; }
  const std::int64_t* first() const noexcept { return heap_ != nullptr ? heap_ : inline_; }
  void copy(const Extents& other) noexcept { std::memcpy(first(), other.first(), 2 * size() * sizeof(std::int64_t)); }

  std::int32_t ndim_ = 0;
  std::int64_t inline_[2 * kInline];
  std::int64_t* heap_ = nullptr;  ///< Owned. A plain pointer: it makes a tensor's header cheaper to include.
};

/// An n-dimensional array in the memory of a device: a view of that memory, and all properties that the interchange
/// protocols carry. Copies are views of the same memory. A plain value: one thread at a time may change it.
struct Tensor : device::Memory {
  ElementType type;  ///< Of all elements.
  Extents extents;   ///< Shape, and strides in bytes; without dimensions for one element.
  /// Address of the first element (index 0 of every dimension) on the device; null if there is no element. For memory
  /// with handles instead of addresses (see device::has_addresses()), the handle.
  void* data = nullptr;
  std::uint64_t byte_offset = 0;         ///< From a handle to the first element; 0 for memory with addresses.
  std::shared_ptr<const Tensor> mask{};  ///< Which elements are valid, of the same shape; null if all are.

  /// The number of dimensions, 0 to kMaxTensorDimensions.
  std::int32_t ndim() const noexcept { return extents.ndim(); }
  /// The elements of each dimension.
  std::span<const std::int64_t> shape() const noexcept { return extents.shape(); }
  std::span<const std::int64_t> strides() const noexcept { return extents.strides(); }  ///< Bytes; may be negative.

  CROSSDOCK_EXPORT std::int64_t size() const noexcept;    ///< Number of elements. Doesn't overflow in a checked tensor.
  CROSSDOCK_EXPORT std::int64_t nbytes() const noexcept;  ///< size() times the bytes of one element.

  /// Moves the first element by that many bytes: the address, or the offset from the handle.
  CROSSDOCK_EXPORT void advance(std::int64_t bytes) noexcept;

  /// True if the elements are in C order without gaps; dimensions of one element may have any stride. True if there is
  /// no element.
  CROSSDOCK_EXPORT bool c_contiguous() const noexcept;
  /// The same in Fortran order: the first dimension is the innermost. Both are true for one dimension without gaps.
  CROSSDOCK_EXPORT bool f_contiguous() const noexcept;
};

/// Range of the bytes of a tensor's elements, relative to the first element. Both ends are 0 if there is no element.
struct ByteRange {
  std::int64_t lowest = 0;   ///< First byte; below 0 where strides are negative.
  std::int64_t highest = 0;  ///< One past the last byte.
};
/// Returns the range of the elements' bytes. Throws InvalidDataError, whose text begins with `where`, for a negative
/// extent, and if sizes or strides overflow 63 bits.
CROSSDOCK_EXPORT ByteRange byte_range(const Tensor& tensor, const char* where);

/// Sets strides of C order. Throws InvalidDataError as byte_range().
CROSSDOCK_EXPORT void set_row_major(Tensor* tensor, const char* where);

/// Makes the checks at the end of every import: the extents are valid (byte_range()); there is a pointer if there are
/// elements; the pointer fits, for host memory. Sets the pointer to null if there are no elements. Throws
/// InvalidDataError.
CROSSDOCK_EXPORT void check_tensor(Tensor* tensor, const char* where);

/// One dimension of a slice: `count` elements from `start`, `step` apart. The same numbers as from Python's
/// slice.indices().
struct Slice {
  std::int64_t start = 0;  ///< Index of the first element; ignored if `count` is 0.
  std::int64_t step = 1;   ///< Elements from one to the next; below 0 reverses them, 0 is an error.
  std::int64_t count = 0;  ///< Elements; 0 leaves none.
  bool keep = true;        ///< False for an index: the dimension is dropped (`count` is 1).
};
/// Returns a view of a part: one Slice per leading dimension; other dimensions stay whole. The mask is sliced, too.
/// Throws InvalidArgumentError for more slices than dimensions, and for elements outside the tensor.
CROSSDOCK_EXPORT Tensor slice(const Tensor& tensor, std::span<const Slice> slices);
/// Returns a view with the dimensions in the order of `axes`, a permutation; the mask too. Throws InvalidArgumentError.
CROSSDOCK_EXPORT Tensor transpose(const Tensor& tensor, std::span<const std::int32_t> axes);

/// Returns the text of a shape, as in "(3, 4)", "(5,)", "()".
CROSSDOCK_EXPORT std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace crossdock::array
