#include <nanobind/nanobind.h>
#include <structmember.h>

#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "../deferred.h"
#include "../offload/usm_type.h"
#include "../text.h"
#include "column.h"
#include "crossdock/exchange/transfer.h"
#include "cuda_array.h"
#include "device.h"
#include "element_type.h"
#include "names.h"
#include "queue.h"
#include "tensor.h"
#include "transfer.h"
#include "usm_array.h"

namespace nb = nanobind;

namespace crossdock::python {

PyTypeObject* tensor_type = nullptr;

namespace {

void deallocate(PyObject* self) noexcept {
  auto* const object = reinterpret_cast<PyTensor*>(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  object->tensor.~Tensor();
  object->format.~unique_ptr();
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

PyObject* event(PyObject* self, void*) noexcept {
  const array::Tensor& tensor = tensor_of(self);
  if (tensor.event.empty() && tensor.event.failure() == nullptr) Py_RETURN_NONE;
  return guarded([&] { return event_object(tensor.event, exchange::device_of_event(tensor)).release().ptr(); });
}

PyObject* queue(PyObject* self, void*) noexcept {
  const array::Tensor& tensor = tensor_of(self);
  if (!tensor.queue) Py_RETURN_NONE;
  return guarded([&] { return queue_object(*tensor.queue).release().ptr(); });
}

PyObject* pointer_attributes(PyObject* self, void*) noexcept {
  return guarded([&] {
    const device::PointerInfo info = attributes_of(tensor_of(self));
    nb::dict shown;
    shown["device"] = device_object(info.device);
    shown["device_pointer"] = reinterpret_cast<std::uintptr_t>(info.address);
    shown["context"] = reinterpret_cast<std::uintptr_t>(info.context);
    shown["host_accessible"] = info.host_accessible;
    shown["managed"] = info.managed;
    shown["allocation"] = info.base == nullptr
                              ? nb::object(nb::none())
                              : nb::object(nb::make_tuple(reinterpret_cast<std::uintptr_t>(info.base), info.size));
    return shown.release().ptr();
  });
}

PyObject* wait(PyObject* self, PyObject* /*unused*/) noexcept {
  return guarded([&] {
    wait_for(tensor_of(self));
    Py_RETURN_NONE;
  });
}

PyObject* unsynchronized(PyObject* self, PyObject* /*unused*/) noexcept {
  return guarded([&] { return new_tensor(exchange::without_event(tensor_of(self))); });
}

PyObject* transposed(PyObject* self, void*) noexcept {
  return guarded([&] {
    const array::Tensor& tensor = tensor_of(self);
    std::vector<std::int32_t> axes;
    for (std::int32_t axis = tensor.ndim(); axis-- > 0;) axes.push_back(axis);
    return new_tensor(array::transpose(tensor, axes));
  });
}

/// Accepts transpose(2, 0, 1) and transpose((2, 0, 1)). Without arguments, reverses all dimensions.
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
    // The kind is shown unless the device's type already implies it.
    if (tensor.kind != array::kind_of(tensor.device.type)) text += std::string(" ") + usm_type_name(tensor.kind);
    if (tensor.read_only) text += ", read-only";
    if (!tensor.c_contiguous()) text += ", strides " + array::shape_text(tensor.strides());
    if (tensor.mask) text += ", masked";
    text += ">";
    return displayed(text).release().ptr();
  });
}

/// For notebooks: the content of repr() as a table. Reads no byte of the memory.
PyObject* html(PyObject* self, PyObject* /*unused*/) noexcept {
  return guarded([&] {
    const array::Tensor& tensor = tensor_of(self);
    std::string text = "<table><caption>crossdock.Tensor</caption>";
    const auto row = [&](const char* name, const std::string& value) {
      text.append("<tr><th>").append(name).append("</th><td>");
      for (const char c : value) {
        // Escapes HTML: the field names of a structured type may contain any text.
        if (c == '<')
          text += "&lt;";
        else if (c == '>')
          text += "&gt;";
        else if (c == '&')
          text += "&amp;";
        else
          text += c;
      }
      text += "</td></tr>";
    };
    row("shape", array::shape_text(tensor.shape()));
    row("dtype", array::element_type_name(tensor.type));
    row("device", device::to_string(tensor.device));
    if (const auto kind = usm_type_of(tensor)) row("usm_type", usm_type_name(*kind));
    row("bytes", std::to_string(tensor.nbytes()));
    if (!tensor.c_contiguous()) row("strides", array::shape_text(tensor.strides()));
    if (tensor.read_only) row("read-only", "yes");
    if (tensor.mask) row("mask", "yes");
    text += "</table>";
    return displayed(text).release().ptr();
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
    {"mask", mask, nullptr, "A tensor of the same shape that says which elements are valid. None: all are.", nullptr},
    {"event", event, nullptr, "The pending work on the memory. None: there is none.", nullptr},
    {"queue", queue, nullptr, "The queue with the work of the producer, or None.", nullptr},
    {"usm_type", usm_type, nullptr,
     "The kind of a device's memory: \"device\", \"shared\" or \"host\" (the host's that the device reaches); None for "
     "the host's own.",
     nullptr},
    {"pointer_attributes", pointer_attributes, nullptr,
     "The attributes of the pointer that the driver reports: device, device_pointer, context, host_accessible, "
     "managed, and allocation (start and size, or None).",
     nullptr},
    {"T", transposed, nullptr, "The same memory with all dimensions reversed.", nullptr},
    {"__array_interface__", array_interface, nullptr, "NumPy's array interface, version 3; host memory only.", nullptr},
    {"__cuda_array_interface__", cuda_array_interface, nullptr,
     "The CUDA Array Interface, version 3; memory that a CUDA device reaches only.", nullptr},
    {"__sycl_usm_array_interface__", usm_array_interface, nullptr,
     "The SYCL USM array interface, version 1; memory that SYCL allocated only. Its syclobj is the array's queue; "
     "waits "
     "for the array's work where that queue isn't in-order, as the interface has no event.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {
    {"transpose", transpose, METH_VARARGS,
     "transpose(*axes)\n--\n\nThe same memory with its dimensions in another order; without axes, reversed."},
    {"to", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to)), METH_FASTCALL | METH_KEYWORDS,
     "to($self, /, device, *, queue=None)\n--\n\n"
     "Returns the elements in memory of a device: this tensor if it is there, else a copy.\n\n"
     "queue: the queue on which the copy runs. The copy may still be under way when this returns; consumers of the "
     "result are ordered after it. Without a queue, the copy runs on the default queue of the device, and a copy to "
     "the host is"
     " complete when this returns."},
    {"copy", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(copy)), METH_FASTCALL | METH_KEYWORDS,
     "copy($self, /, *, queue=None)\n--\n\n"
     "Returns a copy in new, writable memory of the same device. queue: as for to()."},
    {"copy_to", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(copy_to_method)),
     METH_FASTCALL | METH_KEYWORDS,
     "copy_to($self, queue=None, /, *, usm_type=None)\n--\n\n"
     "Returns a copy for work on a queue. The copy runs on that queue and may still be under way when this returns.\n\n"
     "queue: any argument of Queue(). None: the current queue (crossdock.offload)."},
    {"copy_from", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(copy_from_method)),
     METH_FASTCALL | METH_KEYWORDS,
     "copy_from($self, source, /, *, queue=None)\n--\n\n"
     "Copies the elements of an array of the same shape and type into this tensor's memory, which must be writable "
     "and in C order. A source in C order needs no further memory.\n\n"
     "Returns this tensor with the end of the copy as its event: use the result from then on.\n\n"
     "queue: the queue on which the copy runs; it may still be under way when this returns. Without a queue, the "
     "copy runs on the queue of this tensor, else on the queue of the source. If one of the two is host memory, it "
     "is then complete when this returns."},
    {"collocate", collocate, METH_O,
     "collocate($self, other, /)\n--\n\n"
     "Returns the elements for work on a queue. If the queue reaches the memory, this is the same memory, associated "
     "with the queue, and the queue is ordered after the pending work on it. Else it is a copy.\n\n"
     "other: any argument of Queue(), or an array, whose queue is meant."},
    {"sycl_usm_array_interface", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(usm_array_interface_with)),
     METH_FASTCALL | METH_KEYWORDS,
     "sycl_usm_array_interface($self, /, syclobj=\"queue\")\n--\n\n"
     "Returns the dictionary of __sycl_usm_array_interface__ with another syclobj: \"context\", a capsule for one "
     "consumer, or \"filter\", the filter string of a device if the memory is of its default context."},
    {"item", item, METH_NOARGS,
     "item($self, /)\n--\n\n"
     "Returns the value of a tensor of one element, as a bool, int, float or complex. Waits for pending work. For "
     "memory that the host can read."},
    {"tolist", to_list, METH_NOARGS,
     "tolist($self, /)\n--\n\n"
     "Returns the values as nested lists of bool, int, float or complex; without dimensions, as item(). Waits for "
     "pending work. For memory that the host can read."},
    {"_repr_html_", html, METH_NOARGS, "_repr_html_($self, /)\n--\n\nFor notebooks."},
    {"wait", wait, METH_NOARGS,
     "wait($self, /)\n--\n\n"
     "Waits for the pending work on the memory. Raises the error of failed work."},
    {"unsynchronized", unsynchronized, METH_NOARGS,
     "unsynchronized($self, /)\n--\n\n"
     "Returns the same memory without its event and queue. Consumers then wait for nothing, and the CUDA Array "
     "Interface shows stream None. The caller is responsible for the order of work on the memory."},
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dlpack)), METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule: \"dltensor_versioned\" if max_version is (1, 0) or later, else \"dltensor\". Raises "
     "BufferError "
     "where DLPack can't say what this is, or where copy=False and one is needed."},
    {"to_arrow", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to_arrow)), METH_FASTCALL | METH_KEYWORDS,
     "to_arrow($self, /, *, bits=False)\n--\n\n"
     "Returns a Column of this tensor, without a copy. bits: True converts bool, which is a byte here, to Arrow's "
     "bits. False refuses bool."},
    {"__arrow_c_schema__", arrow_schema, METH_NOARGS,
     "__arrow_c_schema__($self, /)\n--\n\n"
     "The Arrow type: of one dimension a number's, of more arrow.fixed_shape_tensor."},
    {"__arrow_c_array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(arrow_array)),
     METH_FASTCALL | METH_KEYWORDS,
     "__arrow_c_array__($self, requested_schema=None)\n--\n\n"
     "Returns a pair of capsules of host memory; device memory is copied. Waits for pending work. Ignores a "
     "requested schema."},
    {"__arrow_c_device_array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(arrow_device_array)),
     METH_FASTCALL | METH_KEYWORDS,
     "__arrow_c_device_array__($self, requested_schema=None, **keywords)\n--\n\n"
     "A pair of capsules, with the device and the event."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(array_method)),
     METH_FASTCALL | METH_KEYWORDS,
     "__array__($self, dtype=None, copy=None)\n--\n\n"
     "Returns a NumPy array. Raises BufferError for memory that the host can't read: a copy has to be asked for."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\n(device type, device id), DLPack's numbers."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weak_references), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

constexpr const char* kDoc =
    "An n-dimensional array in the memory of a device. It is a view of memory that another object owns, and keeps "
    "that object alive.\n\n"
    "Make one with asarray(), from_dlpack() or empty(). Every consumer of DLPack, the buffer protocol, NumPy's array"
    " interface, the CUDA Array Interface or Arrow takes it. It is immutable, but its memory may be written through "
    "what was made from it, unless it is read-only. Safe to share between threads.";

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_repr, reinterpret_cast<void*>(representation)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                       {Py_mp_length, reinterpret_cast<void*>(length)},
                       // Without these slots, Python would parse the bytes of the buffer as the text of a number.
                       {Py_nb_float, reinterpret_cast<void*>(as_float)},
                       {Py_nb_int, reinterpret_cast<void*>(as_int)},
                       {Py_nb_bool, reinterpret_cast<void*>(as_bool)},
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
  object->shown.format = nullptr;
  new (&object->format) std::unique_ptr<const std::string>();
  return reinterpret_cast<PyObject*>(object);
}

std::string utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<std::size_t>(size)};
}

nb::object optional_attribute(PyObject* object, PyObject* name) {
  PyObject* found = nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  if (PyObject_GetOptionalAttr(object, name, &found) < 0) throw nb::python_error();
#else
  if (_PyObject_LookupAttr(object, name, &found) < 0) throw nb::python_error();
#endif
  return nb::steal(found);
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
  bind_queue(module);
  const nb::object type = checked(PyType_FromSpec(&spec));
  tensor_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  Py_INCREF(tensor_type);
  // The type is immutable, so this attribute, which DLPack requires on the type, is put into its dictionary directly.
  const nb::object api = checked(dlpack_exchange_api());
  if (PyDict_SetItem(tensor_type->tp_dict, names::__dlpack_c_exchange_api__(), api.ptr()) != 0) {
    throw nb::python_error();
  }
  PyType_Modified(tensor_type);
  module.attr("Tensor") = type;
  bind_asarray(module);
  bind_cuda_array(module);
  bind_usm_array(module);
  bind_column(module);
}

}  // namespace crossdock::python
