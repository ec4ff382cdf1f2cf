#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/device/buffer.h"

/// Kinds of memory by SYCL's names.
namespace crossdock::python {

/// "device", "host", "shared".
const char* usm_type_name(device::MemoryKind kind) noexcept;
/// The kind that such a text names; nothing for null and None. Throws Python's ValueError or TypeError.
std::optional<device::MemoryKind> usm_type_in(PyObject* object);
/// Of a tensor; nothing for the host's own memory, which is of no device.
std::optional<device::MemoryKind> usm_type_of(const array::Tensor& tensor) noexcept;

}  // namespace crossdock::python
