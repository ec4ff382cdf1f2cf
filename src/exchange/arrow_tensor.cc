#include "crossdock/exchange/arrow_tensor.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "array/metadata.h"
#include "core/amounts.h"
#include "core/bytes.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "device/private_memory.h"
#include "exchange/internal/tensor_metadata.h"

namespace crossdock::exchange {
namespace {

using array::ElementType;
using array::Field;
using array::RecordBatch;
using array::Tensor;
using array::TimeUnit;
using array::TypeCode;
using array::TypeId;

[[noreturn]] void refuse(const std::string& what, const std::string& instead) {
  throw ExportError(what + "; " + instead);
}

const char* unit_text(TimeUnit unit) noexcept {
  switch (unit) {
    case TimeUnit::kSecond: return "[s]";
    case TimeUnit::kMilli: return "[ms]";
    case TimeUnit::kMicro: return "[us]";
    case TimeUnit::kNano: return "[ns]";
  }
  return "";
}

/// The types of numbers that are the same in both.
struct Number {
  TypeId id;
  TypeCode code;
  std::uint8_t bits;
};

constexpr Number kNumbers[] = {
    {TypeId::kInt8, TypeCode::kInt, 8},       {TypeId::kInt16, TypeCode::kInt, 16},
    {TypeId::kInt32, TypeCode::kInt, 32},     {TypeId::kInt64, TypeCode::kInt, 64},
    {TypeId::kUInt8, TypeCode::kUInt, 8},     {TypeId::kUInt16, TypeCode::kUInt, 16},
    {TypeId::kUInt32, TypeCode::kUInt, 32},   {TypeId::kUInt64, TypeCode::kUInt, 64},
    {TypeId::kFloat16, TypeCode::kFloat, 16}, {TypeId::kFloat32, TypeCode::kFloat, 32},
    {TypeId::kFloat64, TypeCode::kFloat, 64},
};
constexpr Number kBool{TypeId::kBool, TypeCode::kBool, 8};  // bits in Arrow

/// Returns the element type of an Arrow type of fixed width. Throws ExportError.
ElementType element_of(const array::Type& type) {
  for (const Number& number : kNumbers) {
    if (number.id == type.id) return {.code = number.code, .bits = number.bits};
  }
  switch (type.id) {
    case TypeId::kTimestamp:
      if (!type.timezone.empty()) {
        refuse("timestamps of the time zone \"" + excerpt(type.timezone) +
                   "\" can't be NumPy dates, which have no time zone",
               "cast them to timestamps without a time zone first");
      }
      return array::parse_typestr(std::string("<M8") + unit_text(type.unit));
    case TypeId::kDuration: return array::parse_typestr(std::string("<m8") + unit_text(type.unit));
    case TypeId::kDate64: return array::parse_typestr("<M8[ms]");
    case TypeId::kFixedSizeBinary: return array::parse_typestr("|V" + std::to_string(type.fixed_size));
    default:
      refuse("a column of type " + array::type_name(type) + " has no elements of fixed size",
             "cast it to a number first");
  }
}

/// Returns the Arrow type of an element type. Throws ExportError.
array::Type arrow_type_of(const ElementType& type) {
  array::Type result;
  const auto fail = [&]() {
    refuse("Arrow has no type for elements of type " + array::element_type_name(type),
           "convert them to numbers in native byte order");
  };
  if (type.described) {
    const std::string& typestr = type.described->typestr;
    const std::string_view unit = std::string_view(typestr).substr(std::min<std::size_t>(3, typestr.size()));
    if (typestr.starts_with("<M8") || typestr.starts_with("<m8")) {
      result.id = typestr[1] == 'M' ? TypeId::kTimestamp : TypeId::kDuration;
      for (const TimeUnit one : {TimeUnit::kSecond, TimeUnit::kMilli, TimeUnit::kMicro, TimeUnit::kNano}) {
        if (unit == unit_text(one)) {
          result.unit = one;
          return result;
        }
      }
    }
    const bool bytes = typestr.starts_with("|V") && type.described->fields.empty();
    if (!bytes || type.described->itemsize > std::numeric_limits<std::int32_t>::max()) fail();
    result.id = TypeId::kFixedSizeBinary;
    result.fixed_size = static_cast<std::int32_t>(type.described->itemsize);
    return result;
  }
  if (type.swapped || type.lanes != 1) fail();
  const auto same = [&](const Number& number) { return number.code == type.code && number.bits == type.bits; };
  const auto* const number = std::ranges::find_if(kNumbers, same);
  if (number == std::end(kNumbers) && !same(kBool)) fail();
  result.id = number != std::end(kNumbers) ? number->id : kBool.id;
  return result;
}

/// Packs `n` bytes, `stride` apart, into bits. A byte other than 0 is true.
std::shared_ptr<std::byte[]> bits_of(const std::byte* bytes, std::int64_t n, std::int64_t stride) {
  const auto size = static_cast<std::size_t>(n / 8 + 1);
  std::shared_ptr<std::byte[]> bits(new std::byte[size]());
  for (std::int64_t i = 0; i < n; ++i) {
    if (bytes[i * stride] != std::byte{0}) bits[i / 8] |= std::byte{1} << (i % 8);
  }
  return bits;
}

void require_host(const Tensor& tensor, const char* what) {
  // Refuses pinned and managed memory too: the new memory made here is host memory, and all buffers of an array must be
  // on one device.
  if (tensor.device.type != device::DeviceType::kCpu || !tensor.ready()) {
    refuse(std::string(what) + " needs host memory without pending work", "copy the tensor to the host and wait first");
  }
}

/// Sets the extents: the number of rows first, then the inner dimensions, in C order.
void set_extents(Tensor* tensor, std::int64_t rows, const std::vector<std::int64_t>& inner) {
  if (inner.size() >= static_cast<std::size_t>(array::kMaxTensorDimensions)) {
    refuse("a column of " + std::to_string(inner.size() + 1) + " dimensions has more than a tensor supports",
           "flatten some of them first");
  }
  tensor->extents = array::Extents(static_cast<std::int32_t>(inner.size() + 1));
  tensor->extents.shape()[0] = rows;
  for (std::size_t d = 0; d < inner.size(); ++d) tensor->extents.shape()[d + 1] = inner[d];
  array::set_row_major(tensor, "an Arrow column");
}

/// Dimensions of a row: those that the extension type names, else one for each level of lists.
struct Rows {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> permutation;
};

Rows rows_of(const Field& column, const std::vector<std::int64_t>& lists) {
  const std::string* const name = array::find_value(column.metadata, kExtensionNameKey);
  if (name == nullptr || *name != kFixedShapeTensor) return {lists, {}};
  const std::string* const json = array::find_value(column.metadata, kExtensionMetadataKey);
  if (json == nullptr) throw InvalidDataError("an arrow.fixed_shape_tensor has no metadata");
  ElementShape element = read_element_shape(*json);
  std::int64_t size = 1;
  for (const std::int64_t extent : element.shape) {
    if (!checked_multiply(size, extent, &size))
      throw InvalidDataError("the shape of an arrow.fixed_shape_tensor overflows");
  }
  if (lists.size() != 1 || lists[0] != size) {
    throw InvalidDataError("the shape of an arrow.fixed_shape_tensor doesn't fit the lists that it is stored in");
  }
  return {std::move(element.shape), std::move(element.permutation)};
}

/// Refuses extension types, whose meaning a tensor would lose. Accepts fixed_shape_tensor at the outermost level, where
/// the shape carries the meaning.
void check_no_extension(const Field& field, bool outermost) {
  const std::string* const name = array::find_value(field.metadata, kExtensionNameKey);
  if (name == nullptr || (outermost && *name == kFixedShapeTensor)) return;
  refuse("the column is of the extension type " + *name + ", which a tensor can't represent",
         "use its storage (in pyarrow, column.storage)");
}

/// Refuses types that are neither an element nor a list of them. Some of those types have no buffer in which nulls
/// could be checked.
void check_numbers(const Field& field) {
  if (field.type.id != TypeId::kFixedSizeList && field.type.id != TypeId::kBool) {
    static_cast<void>(element_of(field.type));
  }
}

std::int64_t count_nulls(const void* validity, std::int64_t first, std::int64_t n) noexcept {
  const auto* const bytes = static_cast<const std::byte*>(validity);
  std::int64_t nulls = 0;
  for (std::int64_t bit = first; bit < first + n; ++bit) {
    nulls += (bytes[bit / 8] >> (bit % 8) & std::byte{1}) == std::byte{0} ? 1 : 0;
  }
  return nulls;
}

/// Checks the `n` values from `first` on of one level: the child of a list may have nulls that a slice doesn't show.
void check_no_nulls(const RecordBatch& column, std::size_t level, std::int64_t first, std::int64_t n) {
  std::int64_t nulls = column.nodes[level].null_count;
  if (nulls < 0) {
    refuse("the null count of the column is unknown, and its validity is in memory that the host can't read",
           "give its null count, or copy it to the host first");
  }
  if (nulls == 0) return;
  const void* const validity = column.buffers[level].data;  // lists of one size have no other buffer
  if (level > 0 && column.host_readable() && validity != nullptr) nulls = count_nulls(validity, first, n);
  if (nulls == 0) return;
  refuse("the column has " + counted(nulls, "null") + ", which a tensor can't represent", "fill or drop them first");
}

Tensor unpacked(const RecordBatch& column, std::size_t leaf, std::int64_t first, std::int64_t n) {
  const array::BufferView& bits = column.buffers[leaf + 1];
  std::shared_ptr<std::byte[]> bytes(new std::byte[static_cast<std::size_t>(n) + 1]);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t bit = first + i;
    bytes[i] = static_cast<const std::byte*>(bits.data)[bit / 8] >> (bit % 8) & std::byte{1};
  }
  Tensor tensor;
  tensor.type = {.code = kBool.code, .bits = kBool.bits};
  tensor.data = bytes.get();
  tensor.owner = std::move(bytes);
  return tensor;
}

}  // namespace

Tensor tensor_of_column(const RecordBatch& given, BoolPolicy bools) {
  if (given.schema->fields().size() != 1) {
    refuse("a batch of " + std::to_string(given.schema->fields().size()) + " columns is not a single array",
           "select one of its columns");
  }
  bool unknown_nulls = false;
  for (const array::Node& node : given.nodes) unknown_nulls = unknown_nulls || node.null_count < 0;
  std::int64_t copied = 0;
  const RecordBatch column = unknown_nulls && given.host_readable() ? array::normalized(given, &copied) : given;
  if (!column.dictionaries.empty()) {
    refuse("a dictionary-encoded column holds indices, not values", "decode it, or use its indices");
  }

  const Field* leaf = column.schema->fields().data();
  check_no_extension(*leaf, true);
  std::vector<std::int64_t> lists;
  std::int64_t first = column.nodes[0].offset;
  std::int64_t elements = column.num_rows;
  check_numbers(*leaf);
  check_no_nulls(column, 0, first, elements);
  while (leaf->type.id == TypeId::kFixedSizeList) {
    lists.push_back(leaf->type.fixed_size);
    leaf = leaf->children.data();
    check_no_extension(*leaf, false);
    // check_structure has checked that the child is long enough for these.
    first = first * lists.back() + column.nodes[lists.size()].offset;
    elements *= lists.back();
    check_numbers(*leaf);
    check_no_nulls(column, lists.size(), first, elements);
  }
  const Rows rows = rows_of(column.schema->fields()[0], lists);
  Tensor tensor;
  if (leaf->type.id == TypeId::kBool) {
    if (bools == BoolPolicy::kRefuse) {
      refuse("bool is bits in Arrow and bytes in tensors",
             "ask for the conversion: from_arrow(column, bits=True), in C++ BoolPolicy::kConvert");
    }
    if (!column.host_readable())
      refuse("bits on a device can't be converted here", "copy the column to the host first");
    tensor = unpacked(column, lists.size(), first, elements);
  } else {
    tensor.type = element_of(leaf->type);
    const array::BufferView& values = column.buffers[lists.size() + 1];
    static_cast<device::Memory&>(tensor) = column;
    tensor.data = const_cast<void*>(values.data);
    if (tensor.data != nullptr) tensor.advance(first * tensor.type.itemsize());
    // Arrow's memory is immutable, but for what was received to be written to.
    const auto size = static_cast<std::uint64_t>(values.size);
    tensor.read_only = size == 0 || !column.host_readable() || !device::in_private_memory(values.data, size);
  }
  set_extents(&tensor, column.num_rows, rows.shape);
  array::check_tensor(&tensor, "an Arrow column");
  if (rows.permutation.empty()) return tensor;
  std::vector<std::int32_t> axes = {0};
  for (const std::int64_t axis : rows.permutation) axes.push_back(static_cast<std::int32_t>(axis) + 1);
  return array::transpose(tensor, axes);
}

namespace {

bool is_bool(const Tensor& tensor) noexcept { return !tensor.type.described && tensor.type.code == TypeCode::kBool; }

/// Returns the number of elements of a row. Throws ExportError for more than a list can hold.
std::int64_t elements_per_row(const Tensor& tensor) {
  std::int64_t per_row = 1;
  for (const std::int64_t extent : tensor.shape().subspan(1)) per_row *= extent;
  if (tensor.ndim() > 1 && per_row > std::numeric_limits<std::int32_t>::max()) {
    refuse("rows of " + std::to_string(per_row) + " elements exceed the size of a fixed-size list",
           "reshape the tensor first");
  }
  return per_row;
}

/// Returns the field of the tensor's column. Throws ExportError for a tensor that can't be a column.
Field field_of(const Tensor& tensor, BoolPolicy bools) {
  if (tensor.ndim() == 0) refuse("a tensor without dimensions can't be a column", "give it one dimension");
  const bool bits = is_bool(tensor);
  if (bits && bools == BoolPolicy::kRefuse) {
    refuse("bool is bits in Arrow and bytes in tensors",
           "ask for the conversion: to_arrow(bits=True), in C++ BoolPolicy::kConvert");
  }
  const bool strided = bits && tensor.ndim() == 1;
  if (!tensor.c_contiguous() && !strided) {
    refuse("a column must be contiguous in C order, but the strides are " + array::shape_text(tensor.strides()),
           "make a contiguous copy first");
  }
  Field values;
  values.type = arrow_type_of(tensor.type);
  values.nullable = false;
  Field column = values;
  if (tensor.ndim() > 1) {
    values.name = "item";
    values.nullable = true;
    column = Field();
    column.type.id = TypeId::kFixedSizeList;
    column.type.fixed_size = static_cast<std::int32_t>(elements_per_row(tensor));
    column.metadata = {{std::string(kExtensionNameKey), std::string(kFixedShapeTensor)},
                       {std::string(kExtensionMetadataKey), write_element_shape(tensor.shape().subspan(1))}};
    column.children.push_back(values);
  }
  column.nullable = tensor.mask != nullptr;
  if (tensor.mask && tensor.ndim() > 1) {
    refuse("a mask of " + std::to_string(tensor.ndim()) + " dimensions can't become row validity",
           "fill the masked elements first");
  }
  return column;
}

}  // namespace

std::shared_ptr<const array::Schema> schema_of_tensor(const Tensor& tensor, BoolPolicy bools) {
  return std::make_shared<const array::Schema>(std::vector<Field>{field_of(tensor, bools)});
}

RecordBatch column_of_tensor(const Tensor& tensor, BoolPolicy bools) {
  auto schema = schema_of_tensor(tensor, bools);
  if (tensor.byte_offset != 0) {
    refuse("a column's buffers must begin at their memory handles, but the tensor begins " +
               std::to_string(tensor.byte_offset) + " bytes after its handle",
           "make a contiguous copy first");
  }
  const bool bits = is_bool(tensor);
  const bool nested = tensor.ndim() > 1;
  const std::int64_t n_rows = tensor.shape()[0];
  const std::int64_t per_row = elements_per_row(tensor);

  tensor.event.check();
  RecordBatch batch;
  static_cast<device::Memory&>(batch) = tensor;
  batch.num_rows = n_rows;
  std::shared_ptr<std::byte[]> packed;
  std::shared_ptr<std::byte[]> validity;
  array::BufferView data{tensor.data, tensor.nbytes()};
  if (bits) {
    require_host(tensor, "converting bool to bits");
    packed = bits_of(static_cast<const std::byte*>(tensor.data), n_rows * per_row, nested ? 1 : tensor.strides()[0]);
    data = {packed.get(), (n_rows * per_row + 7) / 8};
  }
  if (data.size == 0) data = {};
  std::int64_t nulls = 0;
  if (tensor.mask) {
    const Tensor& mask = *tensor.mask;
    require_host(tensor, "a mask as Arrow validity");
    require_host(mask, "a mask as Arrow validity");
    std::vector<std::byte> valid(static_cast<std::size_t>(mask.nbytes()));
    pack(mask, valid.data());
    const std::int64_t width = mask.type.itemsize();
    validity = std::shared_ptr<std::byte[]>(new std::byte[static_cast<std::size_t>(n_rows / 8 + 1)]());
    const std::vector<std::byte> zero(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < n_rows; ++i) {
      // An element is true if any of its bytes is not 0.
      if (std::memcmp(valid.data() + i * width, zero.data(), static_cast<std::size_t>(width)) != 0) {
        validity[i / 8] |= std::byte{1} << (i % 8);
      } else {
        ++nulls;
      }
    }
  }
  const array::BufferView valid_bits =
      nulls > 0 ? array::BufferView{validity.get(), (n_rows + 7) / 8} : array::BufferView{};
  batch.schema = std::move(schema);
  batch.nodes.push_back({n_rows, nulls, 0});
  batch.buffers.push_back(valid_bits);
  if (nested) {
    batch.nodes.push_back({n_rows * per_row, 0, 0});
    batch.buffers.push_back({});
  }
  batch.buffers.push_back(data);
  if (packed || validity) {
    using All = std::tuple<std::shared_ptr<const void>, std::shared_ptr<std::byte[]>, std::shared_ptr<std::byte[]>>;
    batch.owner = std::make_shared<const All>(std::move(batch.owner), std::move(packed), std::move(validity));
  }
  array::check_structure(batch);
  return batch;
}

}  // namespace crossdock::exchange
