#include "session/tensor_format.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "array/metadata.h"
#include "core/json.h"
#include "core/text.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/arrow_tensor.h"
#include "session/tensor_path.h"

namespace crossdock::session {
namespace {

using array::ElementType;
using array::TypeId;

// Of a dtype, behind the type of one lane:
constexpr std::string_view kLanes = " x";
constexpr std::string_view kPadded = " padded";  // elements smaller than a byte, each in one

/// Returns Arrow's type of the same values, or nothing.
std::optional<array::Type> arrow_type(const ElementType& type) {
  array::Tensor column;
  column.type = type;
  column.extents = array::Extents(1);
  column.extents.shape()[0] = 0;
  array::set_row_major(&column, "a column");
  try {
    return exchange::schema_of_tensor(column, exchange::BoolPolicy::kRefuse)->fields()[0].type;
  } catch (const ExportError&) {
    return std::nullopt;
  }
}

/// Returns a type of Arrow's for elements of that many bytes.
array::Type raw_type(std::int64_t width) {
  switch (width) {
    case 1: return {.id = TypeId::kUInt8};
    case 2: return {.id = TypeId::kUInt16};
    case 4: return {.id = TypeId::kUInt32};
    case 8: return {.id = TypeId::kUInt64};
    default: return {.id = TypeId::kFixedSizeBinary, .fixed_size = static_cast<std::int32_t>(width)};
  }
}

std::string dtype_of(const ElementType& type) {
  ElementType lane = type;
  lane.lanes = 1;
  const std::string typestr = typestr_of(lane);
  std::string name = typestr.empty() ? element_type_name(lane) : typestr;
  if (type.lanes != 1) name.append(kLanes).append(std::to_string(type.lanes));
  if (type.padded) name += kPadded;
  return name;
}

/// Reads what dtype_of() writes. Throws the errors of array::parse_element_type().
ElementType read_dtype(std::string_view dtype) {
  const bool padded = dtype.ends_with(kPadded);
  if (padded) dtype.remove_suffix(kPadded.size());
  std::uint16_t lanes = 1;
  const std::size_t space = dtype.find(kLanes);
  if (space != std::string_view::npos) {
    const char* const end = dtype.data() + dtype.size();
    const auto [rest, error] = std::from_chars(dtype.data() + space + kLanes.size(), end, lanes);
    if (error != std::errc{} || rest != end || lanes < 2) throw InvalidArgumentError("it has a wrong number of lanes");
    dtype = dtype.substr(0, space);
  }
  ElementType type = array::parse_element_type(dtype);
  if ((padded || lanes != 1) && (type.described || type.swapped)) throw InvalidArgumentError("it has no lanes");
  type.padded = padded;
  type.lanes = lanes;
  return type;
}

}  // namespace

WireType wire_type(const ElementType& type) {
  const std::string name = element_type_name(type);
  if (type.described && !type.described->fields.empty()) {
    throw UnsupportedTypeError("a tensor of structures (" + name + ") can't be served: serve each field of its own");
  }
  const std::int64_t width = type.itemsize();
  if (width <= 0 || width > INT32_MAX) {
    throw UnsupportedTypeError("a tensor whose elements have " + std::to_string(width) + " bytes (" + name +
                               ") can't be served");
  }
  if (auto known = arrow_type(type)) return {*std::move(known)};
  WireType wire{raw_type(width), dtype_of(type)};
  const auto comes_back = [&] {
    try {
      return read_dtype(wire.dtype) == type;
    } catch (const Error&) {
      return false;
    }
  };
  if (!comes_back()) throw UnsupportedTypeError("a tensor of type " + name + " can't be served: its type has no name");
  return wire;
}

ElementType element_type(const ipc::TensorHeader& header, const std::string& where) {
  const std::string* const dtype = array::find_value(header.custom_metadata, kDtypeKey);
  if (dtype == nullptr) {
    array::RecordBatch column;
    array::Field field;
    field.type = header.type;
    column.schema = std::make_shared<array::Schema>(std::vector{field});
    column.nodes.resize(1);
    column.buffers.resize(2);
    try {
      return exchange::tensor_of_column(column, exchange::BoolPolicy::kRefuse).type;
    } catch (const ExportError& error) {
      throw UnsupportedTypeError(where + ": a tensor of Arrow's type " + array::type_name(header.type) +
                                 " can't be an array: " + error.what());
    }
  }
  const std::int32_t width = array::type_layout(header.type).width;
  try {
    ElementType type = read_dtype(*dtype);
    if (type.itemsize() == width) return type;
  } catch (const InvalidArgumentError& error) {
    throw InvalidDataError(where + ": a tensor has the invalid dtype " + shown(*dtype) + ": " + error.what());
  }
  throw InvalidDataError(where + ": a tensor of dtype " + shown(*dtype) + " has elements of " + std::to_string(width) +
                         " bytes");
}

std::shared_ptr<const array::Schema> tensor_schema(const TensorContent& content) {
  array::Metadata metadata{{std::string(kContentKey), content.single ? "tensor" : "tensors"}};
  if (content.single) {
    metadata.emplace_back(kTypeKey, content.type);
    metadata.emplace_back(kShapeKey, json_of(content.shape));
  } else {
    metadata.emplace_back(kCountKey, std::to_string(content.count));
  }
  return std::make_shared<array::Schema>(std::vector<array::Field>{}, std::move(metadata));
}

std::optional<TensorContent> tensor_content(const array::Schema& schema) {
  const std::string* const content = array::find_value(schema.metadata(), kContentKey);
  if (content == nullptr || !schema.fields().empty()) return std::nullopt;
  TensorContent out{.single = *content != "tensors", .count = -1};
  const std::string* const shape = array::find_value(schema.metadata(), kShapeKey);
  const std::string* const type = array::find_value(schema.metadata(), kTypeKey);
  const std::string* const count = array::find_value(schema.metadata(), kCountKey);
  if (out.single) out.count = 1;
  if (out.single && shape != nullptr && type != nullptr && is_utf8(*type) && read_shape(*shape, &out.shape)) {
    out.type = *type;
  } else {
    out.shape.clear();
  }
  if (!out.single && count != nullptr) {
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(count->data(), count->data() + count->size(), number);
    if (error == std::errc{} && end == count->data() + count->size() && number >= 0) out.count = number;
  }
  return out;
}

bool lies_without_gaps(const array::Tensor& tensor) {
  if (tensor.size() == 0) return true;
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // stride and size
  for (std::int32_t d = 0; d < tensor.ndim(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (tensor.shape()[at] > 1) steps.emplace_back(tensor.strides()[at], tensor.shape()[at]);
  }
  std::ranges::sort(steps);
  std::int64_t covered = tensor.type.itemsize();
  for (const auto& [stride, size] : steps) {
    if (stride < 0 || stride > covered) return false;
    covered += (size - 1) * stride;
  }
  return true;
}

}  // namespace crossdock::session
