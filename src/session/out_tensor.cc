#include "session/out_tensor.h"

#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "session/device_bodies.h"
#include "session/tensor_format.h"

namespace crossdock::session {
namespace {

/// Whether the body of a message, as it is sent, has each element where the target has it.
bool lies_as(const ipc::TensorHeader& header, const array::Tensor& target) {
  if (header.data.offset != 0 || header.body_length != target.nbytes()) return false;
  // Of overlapping elements, the target has fewer bytes.
  const array::ByteRange range = array::byte_range(target, "the memory to receive a tensor in");
  if (range.lowest != 0 || range.highest != target.nbytes() || !lies_without_gaps(target)) return false;
  for (std::size_t d = 0; d < header.shape.size(); ++d) {
    if (header.shape[d] > 1 && header.strides[d] != target.strides()[d]) return false;
  }
  return true;
}

}  // namespace

void OutTensor::expect(const ipc::TensorHeader& header, const std::string& where) {
  const array::ElementType type = element_type(header, where);
  if (type != target_.type || !std::ranges::equal(header.shape, target_.shape())) {
    throw InvalidArgumentError(where + " is a tensor of type " + array::element_type_name(type) + " and shape " +
                               array::shape_text(header.shape) + ", but the memory to receive it in is of type " +
                               array::element_type_name(target_.type) + " and shape " +
                               array::shape_text(target_.shape()));
  }
  const bool reached = context_ ? target_.device == context_->device() && target_.native_context == nullptr
                                : others_->device() == device::Device{} && device::host_reaches(target_.device.type);
  expects_ = reached && lies_as(header, target_);
}

std::shared_ptr<std::byte> OutTensor::allocate(std::uint64_t size) {
  // A peer that sends other bodies before this one has them there: the size fits, and what it sends is its own choice.
  const bool fits = expects_ && !lent_ && size != 0 && size == static_cast<std::uint64_t>(target_.nbytes());
  if (!fits) return others_->allocate(size);
  lent_ = true;
  auto* const memory = static_cast<std::byte*>(target_.data);
  if (context_) return DeviceBodies::lend(context_, memory, target_.owner);
  return {std::const_pointer_cast<void>(target_.owner), memory};
}

}  // namespace crossdock::session
