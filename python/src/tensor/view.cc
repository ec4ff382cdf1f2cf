#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "tensor.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

array::Slice index_of(PyObject* key, std::int64_t extent, std::size_t dimension) {
  const Py_ssize_t given = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (given == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  const Py_ssize_t index = given < 0 ? given + extent : given;
  if (index < 0 || index >= extent) {
    throw_python(PyExc_IndexError, "index %zd is out of bounds for dimension %zu of size %lld", given, dimension,
                 static_cast<long long>(extent));
  }
  return {.start = index, .step = 1, .count = 1, .keep = false};
}

array::Slice slice_of(PyObject* key, std::int64_t extent) {
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(key, &start, &stop, &step) != 0) throw nb::python_error();
  const Py_ssize_t count = PySlice_AdjustIndices(extent, &start, &stop, step);
  return {.start = start, .step = step, .count = count, .keep = true};
}

}  // namespace

PyObject* subscript(PyObject* self, PyObject* key) noexcept {
  return guarded([&] {
    const array::Tensor& tensor = tensor_of(self);
    const nb::object keys = PyTuple_Check(key) != 0 ? nb::borrow(key) : checked(PyTuple_Pack(1, key));
    const Py_ssize_t n = tuple_size(keys.ptr());
    Py_ssize_t ellipses = 0;
    for (Py_ssize_t i = 0; i < n; ++i) ellipses += tuple_item(keys.ptr(), i) == Py_Ellipsis ? 1 : 0;
    if (ellipses > 1) throw_python(PyExc_IndexError, "an index can only have one ellipsis ('...')");
    if (n - ellipses > tensor.ndim()) {
      throw_python(PyExc_IndexError, "too many indices: %zd for a tensor of %d dimensions", n - ellipses,
                   static_cast<int>(tensor.ndim()));
    }
    std::vector<array::Slice> slices;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const one = tuple_item(keys.ptr(), i);
      if (one == Py_Ellipsis) {
        // Takes all dimensions that the other keys don't use.
        for (Py_ssize_t left = tensor.ndim() - (n - 1); left > 0; --left) {
          slices.push_back({.start = 0, .step = 1, .count = tensor.shape()[slices.size()], .keep = true});
        }
        continue;
      }
      const std::int64_t extent = tensor.shape()[slices.size()];
      if (PySlice_Check(one) != 0) {
        slices.push_back(slice_of(one, extent));
      } else if (PyIndex_Check(one) != 0 && PyBool_Check(one) == 0) {
        slices.push_back(index_of(one, extent, slices.size()));
      } else {
        throw_python(
            PyExc_TypeError,
            "a tensor can be indexed by integers, slices and '...', not by %s; use an array library for other indices",
            type_name_of(one).c_str());
      }
    }
    return derived(self, array::slice(tensor, slices)).release().ptr();
  });
}

}  // namespace crossdock::python
