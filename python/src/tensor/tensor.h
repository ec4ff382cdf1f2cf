#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "../errors.h"
#include "crossdock/array/tensor.h"

/// crossdock.Tensor, and how arrays of other libraries become one. Its type and the hot calls are written against
/// CPython itself, as nanobind's bookkeeping for each instance costs more than a whole hand-over does.
///
/// Everything here needs the interpreter lock. Functions that return a PyObject* return a new reference, or null with
/// the Python error set; they don't throw. Others throw.
namespace crossdock::python {

/// The object: its tensor is never changed once it is there, so any thread may use it.
struct PyTensor {
  PyObject ob_base;  // what PyObject_HEAD declares
  array::Tensor tensor;
  PyObject* weak_references;
  /// What consumers of the buffer protocol are shown who take any strides; `format` is null until the first one came.
  Py_buffer shown;
  /// The format that they are shown of what isn't one number (described_format()); null until somebody asked.
  std::unique_ptr<const std::string> format;
};

/// Its type, made by bind_tensor(). Python code can't derive from it.
extern PyTypeObject* tensor_type;

inline bool is_tensor(PyObject* object) noexcept { return Py_TYPE(object) == tensor_type; }
inline const array::Tensor& tensor_of(PyObject* object) noexcept { return reinterpret_cast<PyTensor*>(object)->tensor; }

PyObject* new_tensor(array::Tensor&& tensor) noexcept;

/// Throws nb::python_error after a Python call that failed.
inline nanobind::object checked(PyObject* result) {
  if (result == nullptr) throw nanobind::python_error();
  return nanobind::steal(result);
}

/// Whether an argument was given: neither left out (null) nor None.
inline bool given(PyObject* object) noexcept { return object != nullptr && object != Py_None; }

/// An argument that is true, false or not given. Throws nb::python_error for what is neither true nor false.
inline std::optional<bool> truth(PyObject* object) {
  if (!given(object)) return std::nullopt;
  const int value = PyObject_IsTrue(object);
  if (value < 0) throw nanobind::python_error();
  return value != 0;
}

/// A str in UTF-8. Throws nb::python_error (UnicodeEncodeError) for one that has none: lone surrogates.
std::string utf8_of(nanobind::handle text);

/// An attribute, or no object where there is none: without the cost of an exception. Throws nb::python_error for one
/// that raises something else.
nanobind::object optional_attribute(PyObject* object, PyObject* name);

/// An owner of memory that a Python object keeps: dropped on a Python thread, see deferred.h.
std::shared_ptr<const void> owner_of(PyObject* object);

/// (1, 2, 3) of numbers.
PyObject* tuple_of(std::span<const std::int64_t> numbers) noexcept;

void bind_tensor(nanobind::module_& module);
void bind_asarray(nanobind::module_& module);

// What the files beside this one add to the type.

/// Buffer protocol and the array interface of NumPy.
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;
PyObject* array_interface(PyObject* self, void* unused) noexcept;
/// __array__(dtype=None, copy=None)
PyObject* array_method(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
/// __dlpack__, __dlpack_device__, and the capsule for the type attribute __dlpack_c_exchange_api__.
PyObject* dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
PyObject* dlpack_device(PyObject* self, PyObject* unused) noexcept;
PyObject* dlpack_exchange_api() noexcept;
/// to(device, queue=), copy(queue=)
PyObject* to(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
PyObject* copy(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
/// usm_type, copy_to(queue), collocate(other): in ../offload/arrays.cc.
PyObject* usm_type(PyObject* self, void* unused) noexcept;
PyObject* copy_to_method(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
PyObject* copy_from_method(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
PyObject* collocate(PyObject* self, PyObject* other) noexcept;
/// tensor[key]
PyObject* subscript(PyObject* self, PyObject* key) noexcept;
/// item(), tolist(), float(), int(), bool(): values of memory that the host can read, waited for.
PyObject* item(PyObject* self, PyObject* unused) noexcept;
PyObject* to_list(PyObject* self, PyObject* unused) noexcept;
PyObject* as_float(PyObject* self) noexcept;
PyObject* as_int(PyObject* self) noexcept;
int as_bool(PyObject* self) noexcept;

// Importers. Each returns false, without an error, if the object doesn't implement the protocol. Each throws if the
// object breaks its rules.

/// Options of asarray() that are passed to the producer. Empty: not given.
struct ImportOptions {
  std::optional<bool> sync{};  ///< Of the CUDA Array Interface.
  std::optional<bool> copy{};  ///< Of producers that may make one: false forbids it.
};
/// Tries all importers, in the order of asarray(). Throws UnsupportedTypeError if the object implements none.
void tensor_from_any(PyObject* object, const ImportOptions& options, array::Tensor* out);
bool tensor_from_buffer(PyObject* object, array::Tensor* out);
bool tensor_from_array_interface(PyObject* object, array::Tensor* out);
bool tensor_from_exchange_api(PyObject* object, array::Tensor* out);
/// `copy` as Python has it: true, false, or null for "if need be"; likewise the device, asked of the producer if it
/// isn't null. `*copied`, where it isn't null: whether the memory is a copy as far as the producer tells. Throws
/// Python's BufferError of a producer that can't.
bool tensor_from_dlpack(PyObject* object, PyObject* dl_device, PyObject* copy, array::Tensor* out,
                        bool* copied = nullptr);

}  // namespace crossdock::python
