#include "ipc/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "crossdock/core/error.h"
#include "ipc/internal/flatbuf.h"
#include "ipc/internal/schema_reader.h"
#include "ipc/internal/type_map.h"

namespace crossdock::ipc {
namespace {

constexpr std::size_t kMostName = 64 << 10;

[[noreturn]] void fail_tensor(const char* where, const std::string& what) {
  throw InvalidDataError(std::string(where) + ": the tensor " + what);
}

[[noreturn]] void fail_type(const char* where, const std::string& what) {
  throw InvalidDataError(std::string(where) + ": the tensor's type is invalid: " + what);
}

/// Refuses invalid parameters of a type, as for a column.
void check_type(const array::Type& type, const char* where) {
  array::Field element;
  element.type = type;
  try {
    array::Schema({element});
  } catch (const InvalidDataError& error) {
    fail_type(where, error.what());
  }
}

/// Returns the bytes of one element; 0 for types that a tensor can't have.
std::int32_t element_size(const array::Type& type) noexcept {
  const array::TypeLayout layout = array::type_layout(type);
  return layout.n_buffers == 2 && layout.buffers[1] == array::BufferKind::kFixed && layout.n_children == 0
             ? layout.width
             : 0;
}

}  // namespace

std::vector<std::int64_t> row_major_strides(const array::Type& type, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = element_size(type);
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // With a dimension of no elements, the other strides have no meaning, but aren't zero.
    if (!checked_multiply<std::int64_t>(stride, std::max<std::int64_t>(shape[i], 1), &stride)) {
      throw InvalidDataError("the size of a tensor in bytes overflows 63 bits");
    }
  }
  return strides;
}

std::int64_t tensor_extent(const TensorHeader& tensor, const char* where) {
  const std::int32_t width = element_size(tensor.type);
  if (width <= 0)
    fail_tensor(where, "is of type " + array::type_name(tensor.type) + ", whose elements have no fixed width");
  check_type(tensor.type, where);
  if (tensor.shape.size() > kMaxDimensions) {
    fail_tensor(where, "has " + std::to_string(tensor.shape.size()) + " dimensions, over the limit of " +
                           std::to_string(kMaxDimensions));
  }
  if (tensor.strides.size() != tensor.shape.size()) {
    fail_tensor(where, "has " + std::to_string(tensor.shape.size()) + " dimensions and " +
                           std::to_string(tensor.strides.size()) + " strides");
  }
  if (!tensor.names.empty() && tensor.names.size() != tensor.shape.size()) {
    fail_tensor(where, "has " + std::to_string(tensor.shape.size()) + " dimensions and " +
                           std::to_string(tensor.names.size()) + " names");
  }
  std::int64_t end = width;
  bool empty = false;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] < 0 || tensor.strides[i] < 0) {
      fail_tensor(where, "has a size of " + std::to_string(tensor.shape[i]) + " and a stride of " +
                             std::to_string(tensor.strides[i]) + " in dimension " + std::to_string(i) +
                             "; neither may be negative");
    }
    empty |= tensor.shape[i] == 0;
    std::int64_t reach = 0;
    if (!checked_multiply<std::int64_t>(std::max<std::int64_t>(tensor.shape[i] - 1, 0), tensor.strides[i], &reach) ||
        !checked_add(end, reach, &end)) {
      fail_tensor(where, "has an extent in bytes that overflows 63 bits");
    }
  }
  return empty ? 0 : end;
}

TensorHeader Message::tensor() const {
  if (kind_ != MessageKind::kTensor) throw InvalidArgumentError(std::string(where_) + ": not a tensor message");
  const auto& message = *static_cast<const flatbuf::Message*>(root_);
  const flatbuf::Tensor& from = *message.header_as_Tensor();
  TensorHeader out;
  ReadType type = read_type(from);
  if (!type.unsupported.empty()) {
    throw UnsupportedTypeError(std::string(where_) +
                               ": the tensor has a type that isn't known to this version: " + type.unsupported);
  }
  if (!type.type) fail_type(where_, type.invalid);
  out.type = *std::move(type.type);
  if (from.shape()->size() > kMaxDimensions) {
    fail_tensor(where_, "has " + std::to_string(from.shape()->size()) + " dimensions, over the limit of " +
                            std::to_string(kMaxDimensions));
  }
  for (const flatbuf::TensorDim* dimension : *from.shape()) {
    out.shape.push_back(dimension->size());
    const flatbuffers::String* name = dimension->name();
    // Many dimensions may share one text as their name within a flatbuffer.
    if (name != nullptr && name->size() > kMostName) {
      fail_tensor(where_, "has a dimension with a name of " + std::to_string(name->size()) + " bytes");
    }
    out.names.push_back(name != nullptr ? name->str() : std::string());
  }
  if (std::ranges::all_of(out.names, &std::string::empty)) out.names.clear();
  if (from.strides() != nullptr && from.strides()->size() > 0) {
    // Copies bytes, because the verifier guarantees that the numbers exist, but not that they are aligned.
    out.strides.resize(from.strides()->size());
    std::memcpy(out.strides.data(), from.strides()->Data(), out.strides.size() * sizeof(std::int64_t));
  } else {
    out.strides = row_major_strides(out.type, out.shape);
  }
  std::int64_t place[2];
  static_assert(sizeof place == sizeof(flatbuf::Buffer));
  std::memcpy(place, static_cast<const void*>(from.data()), sizeof place);
  out.data = {place[0], place[1]};
  out.body_length = body_length_;
  const std::int64_t extent = tensor_extent(out, where_);
  if (out.data.offset < 0 || out.data.length < 0 || out.data.offset > body_length_ ||
      out.data.length > body_length_ - out.data.offset) {
    fail_tensor(where_, "has its data at " + std::to_string(out.data.offset) + ", " + std::to_string(out.data.length) +
                            " bytes, outside its body of " + std::to_string(body_length_));
  }
  if (extent > out.data.length) {
    fail_tensor(where_,
                "spans " + std::to_string(extent) + " bytes, but its data has " + std::to_string(out.data.length));
  }
  out.custom_metadata = custom_metadata();
  return out;
}

}  // namespace crossdock::ipc
