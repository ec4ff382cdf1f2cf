#pragma once

#include <memory>

#include "crossdock/array/dlpack_abi.h"
#include "crossdock/array/tensor.h"

namespace crossdock::c_api {

/// A DLPack tensor of a C caller that is taken over in two steps, so that several can be taken over together or not at
/// all.
class ManagedTensor {
 public:
  /// Checks `managed`, which is still the caller's. Throws as exchange::import_dlpack().
  explicit ManagedTensor(DLManagedTensorVersioned* managed);

  /// Returns a view whose owner calls the deleter, once take() was called.
  const array::Tensor& tensor() const noexcept { return tensor_; }
  /// Takes the tensor over.
  void take() noexcept;

 private:
  struct Owner;
  DLManagedTensorVersioned* managed_;
  std::shared_ptr<Owner> owner_;
  array::Tensor tensor_;
};

}  // namespace crossdock::c_api
