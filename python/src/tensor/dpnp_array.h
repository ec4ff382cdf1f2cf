#pragma once

#include <Python.h>

#include <optional>

#include "crossdock/array/tensor.h"

/// Import of dpnp's arrays from the C structure that dpnp's own headers declare for other extensions. The array's
/// dictionary has the same content, but takes 4 µs to read.
namespace crossdock::python {

struct DpnpArray {
  /// Has type, extents (strides in bytes), data, read_only and owner. None of it was checked yet.
  array::Tensor tensor;
  void* queue = nullptr;  ///< The `sycl::queue*` that the array is on. Valid as long as the owner lives.
  /// False: the structure was never compared with a dictionary (prove_dpnp_array()). It must not be used before that.
  bool proven = false;
};

/// Reads a dpnp.tensor.usm_ndarray, or an object whose `__usm_ndarray__` is one. Returns nullopt for any other object,
/// and if the structure of this version of dpnp or dpctl isn't known. Throws the error that `__usm_ndarray__` raises.
std::optional<DpnpArray> dpnp_array(PyObject* object);

/// Compares the structure of an array that isn't proven yet with `said`, the content of its dictionary. If they are
/// equal, later arrays count as proven. If they differ, no structure is read from now on.
void prove_dpnp_array(const DpnpArray& array, const array::Tensor& said);

}  // namespace crossdock::python
