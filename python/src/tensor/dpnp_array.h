#pragma once

#include <Python.h>

#include <optional>

#include "crossdock/array/tensor.h"

/// dpnp's arrays, read from the C structure that dpnp's own headers show to other extensions. Its dictionary says the
/// same, in 4 µs.
namespace crossdock::python {

struct DpnpArray {
  /// Type, extents (strides in bytes), data, read_only and owner; nothing was checked yet.
  array::Tensor tensor;
  void* queue = nullptr;  ///< The `sycl::queue*` that the array is on, as long as the owner lives.
  /// False: the structure was never compared with what a dictionary says, and must be before anything in it is used.
  bool proven = false;
};

/// What an array of dpnp says: a dpnp.tensor.usm_ndarray, or an object with `__usm_ndarray__` that is one. Nothing for
/// any other object, and where dpnp or dpctl is of a version whose structure isn't known. Throws what `__usm_ndarray__`
/// raises.
std::optional<DpnpArray> dpnp_array(PyObject* object);

/// Whether the structure of an array that was not yet proven says what its dictionary does. If it doesn't, no structure
/// is read from now on.
void prove_dpnp_array(const DpnpArray& array, const array::Tensor& said);

}  // namespace crossdock::python
