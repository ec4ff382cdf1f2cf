#pragma once

#include "crossdock/array/tensor.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/runtime.h"

namespace crossdock::session {

/// Copies the elements of `from` into `to`, of the same type and shape, on which nothing is pending. Waits for devices
/// by `wait`, and looks for drivers only if it needs one. On the host both may have any strides, but a target that
/// isn't in C order gets a device's elements by way of the host; a target on a device is in C order. The copy is over
/// on return. Throws as exchange::transfer_into().
void copy_elements(const array::Tensor& to, const array::Tensor& from, const Runtime& runtime,
                   const exchange::WaitFunction& wait);

}  // namespace crossdock::session
