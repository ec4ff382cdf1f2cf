#include <nanobind/nanobind.h>
#include <structmember.h>

#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "../deferred.h"
#include "../wait.h"
#include "array_interface.h"
#include "arrow.h"
#include "crossdock/exchange/copy.h"
#include "cuda_array.h"
#include "device.h"
#include "element_type.h"
#include "names.h"
#include "queue.h"
#include "tensor.h"
#include "transfer.h"
#include "usm_array.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {

PyTypeObject* tensor_type = nullptr;

namespace {

void deallocate(PyObject* self) noexcept {
  auto* const object = reinterpret_cast<PyTensor*>(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  object->tensor.~Tensor();
  Py_CLEAR(object->package);
  object->format.~unique_ptr();
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
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
  if (is_complete(tensor)) Py_RETURN_NONE;
  return guarded([&] {
    const device::DeviceContext of =
        tensor.queue     ? device::DeviceContext{tensor.queue->device(), tensor.queue->native_context()}
        : tensor.context ? device::DeviceContext{tensor.context->device(), tensor.context->native_context()}
                         : device::DeviceContext{tensor.device, tensor.context_handle()};
    device::Event pending;
    try {
      pending = pending_without_lock(tensor);
    } catch (const Error& failure) {
      pending = device::Event::failed(std::make_shared<const Error>(failure));
    }
    return event_object(pending, of).release().ptr();
  });
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

PyObject* transposed(PyObject* self, void*) noexcept {
  return guarded([&] {
    const array::Tensor& tensor = tensor_of(self);
    std::vector<std::int32_t> axes;
    for (std::int32_t axis = tensor.ndim(); axis-- > 0;) axes.push_back(axis);
    return derived(self, array::transpose(tensor, axes)).release().ptr();
  });
}

/// Accepts transpose(2, 0, 1) and transpose((2, 0, 1)). Without arguments, reverses all dimensions.
nb::object transpose(const TensorObject& self, const nb::args& arguments) {
  if (arguments.empty()) return checked(transposed(self.ptr(), nullptr));
  nb::tuple given = arguments;
  if (given.size() == 1 && nb::isinstance<nb::tuple>(given[0])) given = nb::tuple(given[0]);
  const array::Tensor& tensor = *self;
  std::vector<std::int32_t> axes;
  for (nb::handle one : given) {
    const long axis = PyLong_AsLong(one.ptr());
    if (axis == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    const bool named = axis >= -tensor.ndim() && axis < tensor.ndim();
    axes.push_back(named ? static_cast<std::int32_t>(axis < 0 ? axis + tensor.ndim() : axis) : -1);
  }
  return derived(self.ptr(), array::transpose(tensor, axes));
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
    {"readonly", readonly, nullptr,
     "Whether the memory is read-only. Every protocol exports this, or refuses the export.", nullptr},
    {"pointer", pointer, nullptr, "The address of the first element, on its device; 0 if there is no element.",
     nullptr},
    {"mask", mask, nullptr,
     "A tensor of the same shape with the validity of each element. None: all elements are valid.", nullptr},
    {"event", event, nullptr,
     "An event for the work that is pending on the memory now: what the tensor came with, and all work that is on its "
     "queue at this moment. None: there is none.",
     nullptr},
    {"queue", queue, nullptr, "The queue with the work of the producer, or None.", nullptr},
    {"usm_type", usm_type, nullptr,
     "The kind of device memory: \"device\", \"shared\" or \"host\" (host memory that the device can access). None for "
     "ordinary host memory.",
     nullptr},
    {"pointer_attributes", pointer_attributes, nullptr,
     "The attributes of the pointer that the driver reports: device, device_pointer, context, host_accessible, "
     "managed, and allocation (start and size, or None).",
     nullptr},
    {"T", transposed, nullptr, "The same memory with all dimensions reversed.", nullptr},
    {"__array_interface__", array_interface, nullptr, "NumPy's array interface, version 3; host memory only.", nullptr},
    {"__cuda_array_interface__", cuda_array_interface, nullptr,
     "The CUDA Array Interface, version 3; only for memory that a CUDA device can access.", nullptr},
    {"__sycl_usm_array_interface__", usm_array_interface, nullptr,
     "The SYCL USM array interface, version 1; only for memory that SYCL allocated. Its syclobj is the queue of the "
     "array. Waits for the work on the array if that queue isn't in-order, because the interface has no event.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dlpack)), METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "Returns a DLPack capsule: \"dltensor_versioned\" if max_version is (1, 0) or later, else \"dltensor\".\n\n"
     "stream: the stream of the consumer, which is ordered after the work on the memory; -1: no order.\n"
     "dl_device: the device of the result; another device than the tensor's needs a copy.\n"
     "Raises BufferError if DLPack can't describe the tensor, or if a copy is needed but copy=False."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(array_method)),
     METH_FASTCALL | METH_KEYWORDS,
     "__array__($self, dtype=None, copy=None)\n--\n\n"
     "Returns a NumPy array. Raises BufferError for memory that the host can't read: copy it with to() first."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nReturns (device type, device id), DLPack's numbers."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, sizeof(PyObject), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

constexpr const char* kDoc =
    "An n-dimensional array in the memory of a device. It is a view of memory that another object owns, and keeps "
    "that object alive.\n\n"
    "Make one with asarray(), from_dlpack() or empty(). Every consumer of DLPack, the buffer protocol, NumPy's array "
    "interface, the CUDA Array Interface or Arrow takes it. The Tensor is immutable. Its memory may be written through "
    "the arrays that are made from it, unless it is read-only. Safe to share between threads.";

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                       {Py_mp_length, reinterpret_cast<void*>(length)},
                       {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                       {0, nullptr}};

PyType_Spec spec = {"crossdock.Tensor", sizeof(PyTensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

}  // namespace

PyObject* new_tensor(array::Tensor&& tensor) noexcept {
  auto* const object = PyObject_New(PyTensor, tensor_type);
  if (object == nullptr) return nullptr;
  new (&object->tensor) array::Tensor(std::move(tensor));
  object->weak_references = nullptr;
  object->package = nullptr;
  object->shown.format = nullptr;
  new (&object->format) std::unique_ptr<const std::string>();
  return reinterpret_cast<PyObject*>(object);
}

nb::object derived(PyObject* self, array::Tensor&& tensor) {
  nb::object made = checked(new_tensor(std::move(tensor)));
  reinterpret_cast<PyTensor*>(made.ptr())->package = Py_XNewRef(reinterpret_cast<PyTensor*>(self)->package);
  return made;
}

std::string utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<std::size_t>(size)};
}

std::optional<std::int64_t> whole_number(nb::handle object) {
  if (!is_int(object)) return std::nullopt;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(checked(PyNumber_Index(object.ptr())).ptr(), &overflow);
  return overflow == 0 ? std::optional<std::int64_t>(number) : std::nullopt;
}

nb::object optional_attribute(PyObject* object, PyObject* name) {
  PyObject* found = nullptr;
  if (!find_attribute(object, name, &found)) throw nb::python_error();
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
    set_tuple_item(tuple, static_cast<Py_ssize_t>(i), number);
  }
  return tuple;
}

void bind_tensor(nb::module_& module) {
  bind_element_type(module);
  bind_device(module);
  bind_queue(module);
  const nb::object type = checked(PyType_FromSpec(&spec));
  tensor_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  Py_INCREF(type.ptr());
  nb::setattr(type, "__dlpack_c_exchange_api__", checked(dlpack_exchange_api()));
  def_tensor_method("transpose", transpose, "axes"_a,
                    "Returns the same memory with its dimensions in another order.\n\n"
                    "axes: the dimensions in their new order, as numbers or as one tuple; none: in reversed order.\n\n"
                    "Raises `InvalidArgumentError` unless `axes` names each dimension once.");
  def_tensor_method(
      "wait", [](const TensorObject& self) { wait_for(*self); },
      "Waits for the pending work on the memory. Raises the error of failed work.");
  def_tensor_method(
      "unsynchronized", [](const TensorObject& self) { return derived(self.ptr(), exchange::without_event(*self)); },
      "Returns the same memory without its event and queue. Consumers then wait for nothing, and the CUDA Array "
      "Interface shows stream None. The caller is responsible for the order of work on the memory. Raises nothing.");
  def_queue_methods();
  def_after();
  for (nb::handle method : nb::module_::import_("crossdock._tensor").attr("METHODS")) {
    nb::setattr(type, method.attr("__name__"), method);
  }
  module.attr("Tensor") = type;
  bind_asarray(module);
  bind_array_interface(module);
  bind_cuda_array(module);
  bind_usm_array(module);
  bind_tensor_arrow(module);
  make_immutable(tensor_type);
}

}  // namespace crossdock::python
