#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/device/device.h"

/// Names of kinds of memory, as in SYCL.
namespace crossdock::python {

/// Returns "device", "host" or "shared".
const char* usm_type_name(device::MemoryKind kind) noexcept;
/// Returns the kind that a str names, or nullopt for null and None. Throws InvalidArgumentError for an unknown name,
/// Python's TypeError for another type.
std::optional<device::MemoryKind> usm_type_in(PyObject* object);
/// Returns the kind of a tensor's memory, or nullopt for ordinary host memory, which belongs to no device.
std::optional<device::MemoryKind> usm_type_of(const array::Tensor& tensor) noexcept;

}  // namespace crossdock::python
