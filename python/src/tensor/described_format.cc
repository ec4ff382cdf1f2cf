#include "described_format.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "crossdock/array/tensor.h"
#include "format.h"

namespace crossdock::python {
namespace {

using array::DescrField;
using array::ElementType;
using array::Tensor;
using array::TypeCode;

/// NumPy writes a gap as one 'x' per byte. A gap longer than this, which no alignment causes, is written with a count.
constexpr std::int64_t kLongestSpeltGap = 64;

char kind_of(const ElementType& type) noexcept { return type.described ? type.described->typestr[1] : '\0'; }

bool is_big_endian(const ElementType& type) noexcept {
  return type.swapped || (type.described && type.described->typestr[0] == '>');
}

/// Returns the alignment of one element, whatever count its format has. 0: this kind has no format.
std::int64_t alignment_of(const ElementType& type) noexcept {
  switch (kind_of(type)) {
    case '\0': return type.code == TypeCode::kComplex ? type.itemsize() / 2 : type.itemsize();
    case 'S':
    case 'V': return 1;
    case 'U': return alignof(char32_t);
    case 'f': return type.itemsize() == sizeof(long double) ? alignof(long double) : 0;
    case 'c': return type.itemsize() == 2 * sizeof(long double) ? alignof(long double) : 0;
    default: return 0;
  }
}

/// Returns true for a gap between fields, which a descr lists as a field without a name.
bool is_gap(const DescrField& field) noexcept {
  return field.name.empty() && field.title.empty() && field.fields.empty() && field.typestr.size() > 1 &&
         field.typestr[1] == 'V';
}

/// Returns the bytes of all elements of a field, if one has `size` bytes. It can't overflow: the product was checked,
/// in this order, when the type was made.
std::int64_t bytes_of(const DescrField& field, std::int64_t size) noexcept {
  for (const std::int64_t extent : field.shape) size *= extent;
  return size;
}

struct Extent {
  std::int64_t size = 0;
  std::int64_t alignment = 1;
};

Extent extent_of(const std::vector<DescrField>& fields);

/// Returns size and alignment of one element of the field. The field has as many as its shape says.
Extent extent_of(const DescrField& field) {
  if (!field.fields.empty()) return extent_of(field.fields);
  const ElementType type = array::parse_typestr(field.typestr);
  return {type.itemsize(), std::max<std::int64_t>(alignment_of(type), 1)};
}

/// Returns size and alignment of a structure. The sum can't overflow: it was checked when the type was made.
Extent extent_of(const std::vector<DescrField>& fields) {
  Extent whole;
  for (const DescrField& field : fields) {
    const Extent one = extent_of(field);
    whole.size += bytes_of(field, one.size);
    whole.alignment = std::max(whole.alignment, one.alignment);  // each is a power of two
  }
  return whole;
}

/// Returns true if C would use the same layout, with each gap as a member. A reader of a native format aligns fields by
/// itself, and then finds them at the right offsets.
bool is_laid_out_as_in_c(const std::vector<DescrField>& fields) {
  std::int64_t offset = 0;
  for (const DescrField& field : fields) {
    if (!field.fields.empty() && !is_laid_out_as_in_c(field.fields)) return false;
    if (field.fields.empty() && !is_gap(field) && is_big_endian(array::parse_typestr(field.typestr))) return false;
    const Extent one = extent_of(field);
    if (offset % one.alignment != 0) return false;
    offset += bytes_of(field, one.size);
  }
  return offset % extent_of(fields).alignment == 0;
}

bool is_aligned(const Tensor& tensor, std::int64_t alignment) noexcept {
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % static_cast<std::uintptr_t>(alignment) != 0) return false;
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    if (tensor.shape()[d] > 1 && tensor.strides()[d] % alignment != 0) return false;
  }
  return true;
}

class Writer {
 public:
  /// `native`: fields are aligned and have the sizes of C's types on this machine. Otherwise sizes are the standard
  /// ones, and readers add no gaps.
  explicit Writer(bool native) noexcept : native_(native) {}

  bool write(const std::vector<DescrField>& fields) {
    text_ += "T{";
    std::int64_t offset = 0;
    for (const DescrField& field : fields) {
      const std::int64_t size = bytes_of(field, extent_of(field).size);
      if (is_gap(field)) {
        // Readers pad a native structure to its alignment, so the last gap may be implied.
        const bool implied = native_ && &field == &fields.back() && is_implied(fields, offset, size);
        if (!implied) write_gap(size);
      } else if (!write(field)) {
        return false;
      }
      offset += size;
    }
    text_ += '}';
    return true;
  }

  bool write(const ElementType& type) {
    const std::int64_t size = type.itemsize();
    if (size == 0 || alignment_of(type) == 0) return false;
    switch (kind_of(type)) {
      case 'S': return write_counted(size, 's');
      case 'V': return write_counted(size, 'x');
      case 'U': order(is_big_endian(type)); return write_counted(size / 4, 'w');
      case 'f':
      case 'c':
        if (is_big_endian(type)) return false;  // "g" only exists in this machine's byte order
        if (!native_) switch_to('^');
        text_ += kind_of(type) == 'c' ? "Zg" : "g";
        return true;
      default: return write_number(type);
    }
  }

  std::string take() { return std::move(text_); }

 private:
  bool write(const DescrField& field) {
    constexpr std::string_view kEnds(":\0", 2);
    if (!field.title.empty() || field.name.find_first_of(kEnds) != std::string::npos) return false;
    if (!field.shape.empty()) {
      if (std::ranges::find(field.shape, 0) != field.shape.end()) return false;
      char separator = '(';
      for (const std::int64_t extent : field.shape) {
        text_ += separator + std::to_string(extent);
        separator = ',';
      }
      text_ += ')';
    }
    if (!(field.fields.empty() ? write(array::parse_typestr(field.typestr)) : write(field.fields))) return false;
    if (!field.name.empty()) text_ += ":" + field.name + ":";
    return true;
  }

  static bool is_implied(const std::vector<DescrField>& fields, std::int64_t offset, std::int64_t size) {
    const std::int64_t beyond = offset % extent_of(fields).alignment;
    return beyond != 0 && size == extent_of(fields).alignment - beyond;
  }

  void write_gap(std::int64_t size) {
    if (size > kLongestSpeltGap) {
      write_counted(size, 'x');
    } else {
      text_.append(static_cast<std::size_t>(size), 'x');
    }
  }

  bool write_counted(std::int64_t count, char kind) {
    text_ += std::to_string(count) + kind;
    return true;
  }

  bool write_number(const ElementType& type) {
    if (type.itemsize() > 1) order(type.swapped);
    const char* const number = format_of_number(type, native_);
    if (number != nullptr) text_ += number;
    return number != nullptr;
  }

  void order(bool big_endian) {
    if (!native_) switch_to(big_endian ? '>' : '=');
  }

  void switch_to(char order) {
    if (order_ != order) text_ += order;
    order_ = order;
  }

  const bool native_;
  char order_ = '@';  ///< The byte order in effect. '@' is the default of a format. Irrelevant for single bytes.
  std::string text_;
};

}  // namespace

std::string described_format(const Tensor& tensor) {
  const ElementType& type = tensor.type;
  if (!type.described) return {};
  const std::vector<DescrField>& fields = type.described->fields;
  if (fields.empty()) {
    // Untyped bytes ('V') have no format: it could only be 'x' for padding, which readers skip.
    Writer writer(!is_big_endian(type) && is_aligned(tensor, std::max<std::int64_t>(alignment_of(type), 1)));
    return kind_of(type) != 'V' && writer.write(type) ? writer.take() : std::string();
  }
  Writer writer(is_laid_out_as_in_c(fields) && is_aligned(tensor, extent_of(fields).alignment));
  return writer.write(fields) ? writer.take() : std::string();
}

}  // namespace crossdock::python
