#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../errors.h"
#include "crossdock/array/tensor.h"

/// crossdock.Tensor, and the import of other libraries' arrays. The type and its hot calls use CPython's C API
/// directly, because nanobind's bookkeeping for each instance costs more than a whole hand-over. Methods on no hot path
/// are in crossdock/_tensor.py.
///
/// All functions here need the GIL. Functions that return a PyObject* return a new reference, or null with the Python
/// error set, and don't throw. The other functions throw.
namespace crossdock::python {

/// The Python object. Its tensor never changes after construction, so any thread may use it.
struct PyTensor {
  PyObject ob_base;           // what PyObject_HEAD declares
  PyObject* weak_references;  // directly after it: the type has its offset
  PyObject* package;          // the crossdock.offload.Package that made it, or null
  array::Tensor tensor;
  /// The cached view for consumers of the buffer protocol that accept any strides. Its `format` is null until the view
  /// has been made for the first such consumer.
  Py_buffer shown;
  /// The buffer format of elements that aren't one number (described_format()). Null until a consumer asks for it.
  std::unique_ptr<const std::string> format;
};

/// The type crossdock.Tensor, made by bind_tensor(). Python code can't derive from it.
extern PyTypeObject* tensor_type;

inline bool is_tensor(PyObject* object) noexcept { return Py_TYPE(object) == tensor_type; }
inline const array::Tensor& tensor_of(PyObject* object) noexcept { return reinterpret_cast<PyTensor*>(object)->tensor; }

PyObject* new_tensor(array::Tensor&& tensor) noexcept;
/// Makes a tensor of the same package as `self`: a view of it, or a copy.
nanobind::object derived(PyObject* self, array::Tensor&& tensor);

/// Returns true if nothing can be pending on the tensor, and it carries no failure to throw.
inline bool is_complete(const array::Tensor& tensor) noexcept {
  if (tensor.queue) return false;
  return tensor.event.none() || (tensor.event.native() == nullptr && tensor.event.failure() == nullptr);
}

/// A crossdock.Tensor as an argument of a function that nanobind calls.
class TensorObject : public nanobind::object {
 public:
  NB_OBJECT(TensorObject, nanobind::object, "crossdock.Tensor", is_tensor)
  const array::Tensor& operator*() const noexcept { return tensor_of(ptr()); }
};

/// Adds a method that nanobind calls, for calls that aren't hot. `function` takes a TensorObject first.
template <class Function, class... Extra>
void def_tensor_method(const char* name, Function&& function, const Extra&... extra) {
  nanobind::cpp_function_def(std::forward<Function>(function),
                             nanobind::scope(reinterpret_cast<PyObject*>(tensor_type)), nanobind::name(name),
                             nanobind::is_method(), extra...);
}

/// Takes over the new reference that a Python call returned. Throws nb::python_error if it is null (the call failed).
inline nanobind::object checked(PyObject* result) {
  if (result == nullptr) throw nanobind::python_error();
  return nanobind::steal(result);
}

/// Returns true if an argument was given: it is neither left out (null) nor None.
inline bool given(PyObject* object) noexcept { return object != nullptr && object != Py_None; }

/// Reads an optional bool argument. Returns nullopt if it isn't given. Throws nb::python_error if the object has no
/// truth value.
inline std::optional<bool> truth(PyObject* object) {
  if (!given(object)) return std::nullopt;
  const int value = PyObject_IsTrue(object);
  if (value < 0) throw nanobind::python_error();
  return value != 0;
}

/// Returns true for an integer, of any type. A bool isn't one.
inline bool is_int(nanobind::handle object) noexcept {
  return PyIndex_Check(object.ptr()) != 0 && PyBool_Check(object.ptr()) == 0;
}
/// Returns an integer as a number, or nullopt if it is no integer or has more than 64 bits.
std::optional<std::int64_t> whole_number(nanobind::handle object);

/// Returns a str as UTF-8. Throws nb::python_error (UnicodeEncodeError) for a str with lone surrogates, which has no
/// UTF-8 form.
std::string utf8_of(nanobind::handle text);

/// Returns an attribute, or no object if there is none; a missing attribute doesn't cost an exception. Throws
/// nb::python_error if the lookup raises another error than AttributeError.
nanobind::object optional_attribute(PyObject* object, PyObject* name);

/// Returns an owner that holds a reference to `object`, which keeps the memory alive. The reference is dropped on a
/// Python thread, see deferred.h.
std::shared_ptr<const void> owner_of(PyObject* object);

/// Reads a shape: an int or a sequence of ints. Throws InvalidArgumentError for a negative one, and nb::python_error.
std::vector<std::int64_t> shape_in(PyObject* object);
/// Makes a tuple of ints.
PyObject* tuple_of(std::span<const std::int64_t> numbers) noexcept;

void bind_tensor(nanobind::module_& module);
void bind_asarray(nanobind::module_& module);
/// Adds the methods that take queues: in ../offload/arrays.cc.
void def_queue_methods();

// Slots, attributes and methods of the type that other files of this folder implement.

/// The buffer protocol and NumPy's array interface.
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;
PyObject* array_interface(PyObject* self, void* unused) noexcept;
/// __array__(dtype=None, copy=None)
PyObject* array_method(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
/// __dlpack__, __dlpack_device__, and the capsule of the type attribute __dlpack_c_exchange_api__.
PyObject* dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
PyObject* dlpack_device(PyObject* self, PyObject* unused) noexcept;
PyObject* dlpack_exchange_api() noexcept;
/// usm_type: in ../offload/arrays.cc.
PyObject* usm_type(PyObject* self, void* unused) noexcept;
/// tensor[key]
PyObject* subscript(PyObject* self, PyObject* key) noexcept;

// Importers. Each one returns false, without an error, if the object doesn't implement the protocol. It throws if the
// object implements the protocol but breaks its rules.

/// Options of asarray() that are passed to the producer. Nullopt: not given.
struct ImportOptions {
  std::optional<bool> sync{};  ///< For the CUDA Array Interface: whether to respect the stream.
  std::optional<bool> copy{};  ///< For producers that may make a copy: false forbids it.
};
/// Tries all importers, in the order of asarray(). Throws UnsupportedTypeError if the object implements none.
void tensor_from_any(PyObject* object, const ImportOptions& options, array::Tensor* out);
bool tensor_from_buffer(PyObject* object, array::Tensor* out);
bool tensor_from_array_interface(PyObject* object, array::Tensor* out);
bool tensor_from_exchange_api(PyObject* object, array::Tensor* out);
/// Imports by __dlpack__. `dl_device` and `copy` are passed to the producer if they aren't null or None. `copy` is
/// Python's value: true, false, or null for "only if needed". If `copied` isn't null, `*copied` says whether the memory
/// is a copy, as far as the producer tells. Passes on the BufferError of a producer that can't do as asked.
bool tensor_from_dlpack(PyObject* object, PyObject* dl_device, PyObject* copy, array::Tensor* out,
                        bool* copied = nullptr);

}  // namespace crossdock::python
