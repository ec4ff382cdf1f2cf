#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "crossdock/array/schema.h"
#include "crossdock/array/tensor.h"
#include "crossdock/session/tensors.h"
#include "ipc/tensor.h"

/// How tensors are written in IPC messages (docs/reference/protocol.md, "Tensors").
namespace crossdock::session {

/// Keys of custom metadata. Of a tensor's message:
inline constexpr std::string_view kDtypeKey = "crossdock:dtype";  ///< The elements' type, where Arrow has none.
inline constexpr std::string_view kPathKey = "crossdock:path";    ///< NamedTensor::path, in JSON.
// Of the schema:
inline constexpr std::string_view kContentKey = "crossdock:content";  ///< "tensor" or "tensors".
inline constexpr std::string_view kCountKey = "crossdock:count";      ///< Of "tensors".
inline constexpr std::string_view kTypeKey = "crossdock:type";        ///< Of "tensor".
inline constexpr std::string_view kShapeKey = "crossdock:shape";      ///< Of "tensor", in JSON.

/// The type of a tensor's elements in a message: Arrow's, and a name if that isn't all.
struct WireType {
  array::Type type;
  std::string dtype{};  ///< For kDtypeKey; empty: `type` says it.
};
/// Returns how elements of this type are written. Types that Arrow's tensors don't have become unsigned integers of the
/// same width, or bytes. Throws UnsupportedTypeError, which names the type, for structures, for elements of no bytes,
/// and for types that have no name.
WireType wire_type(const array::ElementType& type);
/// Reads the type of a tensor's elements from its message. Throws InvalidDataError, which begins with `where`, for a
/// name that isn't one, or whose elements have another width; UnsupportedTypeError for an Arrow type that no tensor
/// has.
array::ElementType element_type(const ipc::TensorHeader& header, const std::string& where);

/// Returns the schema of a stream of tensors. It has no fields.
std::shared_ptr<const array::Schema> tensor_schema(const TensorContent& content);

/// Returns whether every byte from the first element to the end of the farthest one belongs to an element, and the
/// first element is at the lowest address: then the elements can be sent as they lie, with their strides.
bool lies_without_gaps(const array::Tensor& tensor);

}  // namespace crossdock::session
