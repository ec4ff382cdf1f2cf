#include <nanobind/nanobind.h>
#include <structmember.h>

#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "../deferred.h"
#include "element_type.h"
#include "names.h"
#include "place.h"
#include "tensor.h"

namespace nb = nanobind;

namespace crossdock::python {

PyTypeObject* tensor_type = nullptr;

namespace {

void deallocate(PyObject* self) noexcept {
  auto* const object = reinterpret_cast<PyTensor*>(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  object->tensor.~Tensor();
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* shape(PyObject* self, void*) noexcept { return tuple_of(tensor_of(self).shape()); }
PyObject* strides(PyObject* self, void*) noexcept { return tuple_of(tensor_of(self).strides()); }
PyObject* ndim(PyObject* self, void*) noexcept { return PyLong_FromLong(tensor_of(self).ndim()); }
PyObject* size(PyObject* self, void*) noexcept { return PyLong_FromLongLong(tensor_of(self).size()); }
PyObject* nbytes(PyObject* self, void*) noexcept { return PyLong_FromLongLong(tensor_of(self).nbytes()); }
PyObject* itemsize(PyObject* self, void*) noexcept { return PyLong_FromLongLong(tensor_of(self).type.itemsize()); }
PyObject* readonly(PyObject* self, void*) noexcept { return PyBool_FromLong(tensor_of(self).read_only ? 1 : 0); }
PyObject* pointer(PyObject* self, void*) noexcept { return PyLong_FromVoidPtr(tensor_of(self).data); }

PyObject* dtype(PyObject* self, void*) noexcept {
  return guarded([&] { return element_type_object(tensor_of(self).type).release().ptr(); });
}

PyObject* device_of(PyObject* self, void*) noexcept {
  return guarded([&] { return device_object(tensor_of(self).device).release().ptr(); });
}

PyObject* mask(PyObject* self, void*) noexcept {
  const array::Tensor& tensor = tensor_of(self);
  if (tensor.mask == nullptr) Py_RETURN_NONE;
  return guarded([&] { return new_tensor(array::Tensor(*tensor.mask)); });
}

PyObject* transposed(PyObject* self, void*) noexcept {
  return guarded([&] {
    const array::Tensor& tensor = tensor_of(self);
    std::vector<std::int32_t> axes;
    for (std::int32_t axis = tensor.ndim(); axis-- > 0;) axes.push_back(axis);
    return new_tensor(array::transpose(tensor, axes));
  });
}

/// transpose(2, 0, 1), transpose((2, 0, 1)), or all dimensions reversed.
PyObject* transpose(PyObject* self, PyObject* arguments) noexcept {
  return guarded([&]() -> PyObject* {
    nb::handle given = arguments;
    if (PyTuple_GET_SIZE(arguments) == 0) return transposed(self, nullptr);
    if (PyTuple_GET_SIZE(arguments) == 1 && PyTuple_Check(PyTuple_GET_ITEM(arguments, 0))) {
      given = PyTuple_GET_ITEM(arguments, 0);
    }
    const array::Tensor& tensor = tensor_of(self);
    std::vector<std::int32_t> axes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.ptr()); ++i) {
      const long axis = PyLong_AsLong(PyTuple_GET_ITEM(given.ptr(), i));
      if (axis == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
      const bool named = axis >= -tensor.ndim() && axis < tensor.ndim();
      axes.push_back(named ? static_cast<std::int32_t>(axis < 0 ? axis + tensor.ndim() : axis) : -1);
    }
    return new_tensor(array::transpose(tensor, axes));
  });
}

PyObject* representation(PyObject* self) noexcept {
  return guarded([&] {
    const array::Tensor& tensor = tensor_of(self);
    std::string text = "<crossdock.Tensor: shape " + array::shape_text(tensor.shape()) + ", " +
                       array::element_type_name(tensor.type) + ", " + device::to_string(tensor.device);
    if (tensor.read_only) text += ", read-only";
    if (!tensor.c_contiguous()) text += ", strides " + array::shape_text(tensor.strides());
    if (tensor.mask) text += ", masked";
    text += ">";
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

Py_ssize_t length(PyObject* self) noexcept {
  const array::Tensor& tensor = tensor_of(self);
  if (tensor.ndim() == 0) {
    PyErr_SetString(PyExc_TypeError, "a tensor without dimensions has no length");
    return -1;
  }
  return tensor.shape()[0];
}

PyGetSetDef attributes[] = {
    {"shape", shape, nullptr, "Elements along each dimension.", nullptr},
    {"strides", strides, nullptr, "Bytes from one element to the next along each dimension; may be negative.", nullptr},
    {"ndim", ndim, nullptr, "The number of dimensions.", nullptr},
    {"size", size, nullptr, "The number of elements.", nullptr},
    {"nbytes", nbytes, nullptr, "size times itemsize: bytes of the elements, without gaps between them.", nullptr},
    {"itemsize", itemsize, nullptr, "Bytes of one element.", nullptr},
    {"dtype", dtype, nullptr, "The elements' type, a crossdock.DType.", nullptr},
    {"device", device_of, nullptr, "Where the memory is, a crossdock.Device.", nullptr},
    {"readonly", readonly, nullptr, "Whether the memory may only be read. Stays so in every protocol.", nullptr},
    {"pointer", pointer, nullptr, "The address of the first element, on its device; 0 if there is no element.",
     nullptr},
    {"mask", mask, nullptr, "Which elements are valid, a tensor of the same shape, or None: all are.", nullptr},
    {"T", transposed, nullptr, "The same memory with all dimensions reversed.", nullptr},
    {"__array_interface__", array_interface, nullptr, "NumPy's array interface, version 3; host memory only.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {
    {"transpose", transpose, METH_VARARGS,
     "transpose(*axes)\n--\n\nThe same memory with its dimensions in another order; without axes, reversed."},
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dlpack)), METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule: \"dltensor_versioned\" if max_version is (1, 0) or later, else \"dltensor\". Raises "
     "BufferError "
     "where DLPack can't say what this is, or where copy=False and one is needed."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\n(device type, device id), DLPack's numbers."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weak_references), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

constexpr const char* kDoc =
    "An n-dimensional array in the memory of some device: a view of memory that somebody else owns, which it keeps "
    "alive.\n\nGet one with asarray(), from_dlpack() or empty(), hand it to anything that takes DLPack, the buffer "
    "protocol, NumPy's array interface, the CUDA Array Interface or Arrow. Immutable; its memory may be written "
    "through "
    "what was made from it unless it is read-only. Safe to share between threads.";

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_repr, reinterpret_cast<void*>(representation)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                       {Py_mp_length, reinterpret_cast<void*>(length)},
                       {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                       {0, nullptr}};

PyType_Spec spec = {"crossdock.Tensor", sizeof(PyTensor), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};

}  // namespace

PyObject* new_tensor(array::Tensor&& tensor) noexcept {
  auto* const object = PyObject_New(PyTensor, tensor_type);
  if (object == nullptr) return nullptr;
  new (&object->tensor) array::Tensor(std::move(tensor));
  object->weak_references = nullptr;
  return reinterpret_cast<PyObject*>(object);
}

std::shared_ptr<const void> owner_of(PyObject* object) { return std::make_shared<const PyOwner>(object); }

PyObject* tuple_of(std::span<const std::int64_t> numbers) noexcept {
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(numbers.size()));
  if (tuple == nullptr) return nullptr;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    PyObject* const number = PyLong_FromLongLong(numbers[i]);
    if (number == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), number);
  }
  return tuple;
}

void bind_tensor(nb::module_& module) {
  bind_element_type(module);
  bind_device(module);
  const nb::object type = checked(PyType_FromSpec(&spec));
  tensor_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  Py_INCREF(tensor_type);
  // The type is immutable from here on, but for this attribute, which DLPack wants on the type.
  const nb::object api = checked(dlpack_exchange_api());
  if (PyDict_SetItem(tensor_type->tp_dict, names::__dlpack_c_exchange_api__(), api.ptr()) != 0) {
    throw nb::python_error();
  }
  PyType_Modified(tensor_type);
  module.attr("Tensor") = type;
  bind_asarray(module);
}

}  // namespace crossdock::python
