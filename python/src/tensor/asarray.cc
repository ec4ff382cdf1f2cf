#include <nanobind/nanobind.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../deferred.h"
#include "column.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/dlpack.h"
#include "cuda_array.h"
#include "element_type.h"
#include "names.h"
#include "place.h"
#include "queue.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::Tensor;

bool tensor_from_array_method(PyObject* object, const Asked& asked, Tensor* out) {
  const nb::object held = optional_attribute(object, names::__array__());
  if (!held.is_valid()) return false;
  // Who doesn't know the argument (NumPy before 2.0) raises TypeError: then nobody can promise that it is no copy.
  const nb::object array =
      asked.copy == false ? held(nb::arg("copy") = false) : nb::object(checked(PyObject_CallNoArgs(held.ptr())));
  return tensor_from_buffer(array.ptr(), out) || tensor_from_array_interface(array.ptr(), out);
}

/// What asarray() and from_dlpack() are asked for; borrowed, null or None where not given.
struct Options {
  PyObject* device = nullptr;
  PyObject* copy = nullptr;
  PyObject* queue = nullptr;
  PyObject* sync = nullptr;
};

/// What asarray(object, device=, copy=, queue=) makes of a tensor of the object.
Tensor placed(Tensor tensor, const Options& options) {
  const device::Queue* const queue = given(options.queue) ? queue_in(options.queue) : nullptr;
  const device::Device target = given(options.device) ? device_in(options.device)
                                : queue != nullptr    ? queue->device()
                                                      : tensor.device;
  const std::optional<bool> copy = truth(options.copy);
  const bool elsewhere = target != tensor.device;
  if (!elsewhere && copy != true) return tensor;
  if (copy == false) {
    throw ExportError("a copy is needed to bring an array in memory of " + device::to_string(tensor.device) + " to " +
                      device::to_string(target) + ", and copy=False forbids it");
  }
  return copy_to(tensor, target, queue);
}

PyObject* asarray(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t positional,
                  PyObject* keywords) noexcept {
  if (positional < 1 || positional > 4) {
    PyErr_SetString(PyExc_TypeError, "asarray() takes an object, and optionally device, copy and queue");
    return nullptr;
  }
  PyObject* const object = arguments[0];
  Options options;
  if (positional > 1) options.device = arguments[1];
  if (positional > 2) options.copy = arguments[2];
  if (positional > 3) options.queue = arguments[3];
  if (keywords != nullptr) {
    PyObject* const known[] = {names::device(), names::copy(), names::queue(), names::sync()};
    PyObject** const out[] = {&options.device, &options.copy, &options.queue, &options.sync};
    if (!names::read_keywords("asarray", arguments + positional, keywords, known, out)) return nullptr;
  }
  return guarded([&] {
    drain_deferred();
    const bool as_it_is = !given(options.device) && !given(options.copy) && !given(options.queue);
    if (is_tensor(object) && as_it_is) {
      Py_INCREF(object);
      return object;
    }
    Tensor tensor;
    if (is_tensor(object)) {
      tensor = tensor_of(object);
    } else {
      tensor_from_any(object, {.sync = truth(options.sync), .copy = truth(options.copy)}, &tensor);
    }
    if (!as_it_is) tensor = placed(std::move(tensor), options);
    return new_tensor(std::move(tensor));
  });
}

PyObject* from_dlpack(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t positional,
                      PyObject* keywords) noexcept {
  if (positional != 1) {
    PyErr_SetString(PyExc_TypeError, "from_dlpack() takes an object, and device and copy as keywords");
    return nullptr;
  }
  Options options;
  if (keywords != nullptr) {
    PyObject* const known[] = {names::device(), names::copy()};
    PyObject** const out[] = {&options.device, &options.copy};
    if (!names::read_keywords("from_dlpack", arguments + positional, keywords, known, out)) return nullptr;
  }
  return guarded([&] {
    drain_deferred();
    nb::object dl_device = nb::none();
    if (given(options.device)) {
      const device::Device target = exchange::dlpack_device(device_in(options.device));
      dl_device = nb::make_tuple(static_cast<int>(target.type), target.id);
    }
    Tensor tensor;
    if (!tensor_from_dlpack(arguments[0], dl_device.ptr(), options.copy, &tensor)) {
      throw UnsupportedTypeError("an object of type " + std::string(Py_TYPE(arguments[0])->tp_name) +
                                 " has no __dlpack__");
    }
    return new_tensor(std::move(tensor));
  });
}

/// Of an int or a tuple of them. Throws.
std::vector<std::int64_t> shape_in(PyObject* object) {
  const auto extent_in = [](PyObject* one) {
    const Py_ssize_t extent = PyNumber_AsSsize_t(one, PyExc_OverflowError);
    if (extent == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (extent < 0) throw InvalidArgumentError("a tensor has no negative extent; it was " + std::to_string(extent));
    return static_cast<std::int64_t>(extent);
  };
  if (PyIndex_Check(object) != 0) return {extent_in(object)};
  const nb::object sequence = checked(PySequence_Fast(object, "shape is an int or a sequence of them"));
  std::vector<std::int64_t> shape;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.ptr()); ++i) {
    shape.push_back(extent_in(PySequence_Fast_GET_ITEM(sequence.ptr(), i)));
  }
  return shape;
}

PyObject* empty(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) noexcept {
  if (positional < 1 || positional > 2) {
    PyErr_SetString(PyExc_TypeError, "empty() takes a shape, and optionally a dtype");
    return nullptr;
  }
  PyObject* dtype = positional > 1 ? arguments[1] : nullptr;
  Options options;
  PyObject* const known[] = {names::dtype(), names::device(), names::queue()};
  PyObject** const out[] = {&dtype, &options.device, &options.queue};
  if (!names::read_keywords("empty", arguments + positional, keywords, known, out)) return nullptr;
  return guarded([&] {
    drain_deferred();
    const auto type = given(dtype) ? element_type_in(dtype) : array::ElementType{};
    const device::Queue* const queue = given(options.queue) ? queue_in(options.queue) : nullptr;
    const device::Device device = given(options.device) ? device_in(options.device)
                                  : queue != nullptr    ? queue->device()
                                                        : device::Device{};
    return new_tensor(empty_on(type, shape_in(arguments[0]), device, queue));
  });
}

PyMethodDef functions[] = {
    {"asarray", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(asarray)), METH_FASTCALL | METH_KEYWORDS,
     "asarray(obj, device=None, copy=None, queue=None, *, sync=None)\n--\n\n"
     "Any array as a Tensor, without a copy where none is asked for.\n\n"
     "Takes what speaks the buffer protocol, DLPack (in Python or C), Arrow, the CUDA Array Interface or NumPy's array "
     "interface.\n\ndevice: where it must be (\"cpu\", \"cuda:1\"); None: where it is. copy: True always copies, False "
     "raises BufferError where one is needed. queue: where a copy runs; without a device, the array comes to the "
     "queue's. "
     "sync: False ignores the stream of an array that comes by the CUDA Array Interface."},
    {"empty", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(empty)), METH_FASTCALL | METH_KEYWORDS,
     "empty(shape, dtype=\"float64\", *, device=None, queue=None)\n--\n\n"
     "A new Tensor in C order whose memory is not set. device: the queue's if there is one, else the host. queue: work "
     "on "
     "the memory is on it, or ordered after it; without one the device's default queue."},
    {"from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_dlpack)),
     METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\n"
     "A Tensor from an object with __dlpack__, by that protocol alone: as the Python array API standard says."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* to(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) noexcept {
  Options options;
  if (positional == 1) options.device = arguments[0];
  PyObject* const known[] = {names::device(), names::queue()};
  PyObject** const out[] = {&options.device, &options.queue};
  if (positional > 1 || !names::read_keywords("to", arguments + positional, keywords, known, out) ||
      options.device == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "to() takes a device, and a queue as keyword");
    return nullptr;
  }
  return guarded([&] {
    drain_deferred();
    const array::Tensor& tensor = tensor_of(self);
    if (device_in(options.device) == tensor.device) {
      Py_INCREF(self);
      return self;
    }
    return new_tensor(placed(Tensor(tensor), options));
  });
}

PyObject* copy(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) noexcept {
  PyObject* queue = nullptr;
  PyObject* const known[] = {names::queue()};
  PyObject** const out[] = {&queue};
  if (positional > 0) PyErr_SetString(PyExc_TypeError, "copy() takes a queue as keyword only");
  if (positional > 0 || !names::read_keywords("copy", arguments + positional, keywords, known, out)) return nullptr;
  return guarded([&] {
    drain_deferred();
    const array::Tensor& tensor = tensor_of(self);
    return new_tensor(copy_to(tensor, tensor.device, given(queue) ? queue_in(queue) : nullptr));
  });
}

void tensor_from_any(PyObject* object, const Asked& asked, Tensor* out) {
  if (is_tensor(object)) {
    *out = tensor_of(object);
    return;
  }
  if (PyObject_CheckBuffer(object) != 0) {
    if (std::strcmp(Py_TYPE(object)->tp_name, "MaskedArray") == 0) {
      throw UnsupportedError(
          "a masked array of NumPy doesn't say its mask in any protocol; fill it first (.filled()), or "
          "hand over its .data and .mask");
    }
    if (tensor_from_buffer(object, out)) return;
    // NumPy's dates, texts and structures are no buffers, or of no single format, and DLPack hasn't them at all.
    if (tensor_from_array_interface(object, out)) return;
  }
  if (tensor_from_exchange_api(object, out)) return;
  // Before DLPack: what is Arrow's is read-only, which not everybody says there.
  if (tensor_from_arrow(object, exchange::Bools::kRefuse, false, out)) return;
  if (tensor_from_dlpack(object, nullptr, asked.copy == false ? Py_False : nullptr, out)) return;
  if (tensor_from_cuda_array(object, asked.sync, out)) return;
  if (tensor_from_array_interface(object, out)) return;
  // Before __array__, which makes NaN of nulls and copies of chunks without a word.
  if (tensor_from_arrow(object, exchange::Bools::kRefuse, true, out)) return;
  if (tensor_from_array_method(object, asked, out)) return;
  throw UnsupportedTypeError("an object of type " + std::string(Py_TYPE(object)->tp_name) +
                             " is no array: it has none of __dlpack__, __arrow_c_array__, __cuda_array_interface__, "
                             "__array_interface__, __array__, and no buffer");
}

void bind_asarray(nb::module_& module) {
  for (PyMethodDef* function = functions; function->ml_name != nullptr; ++function) {
    module.attr(function->ml_name) = checked(PyCFunction_NewEx(function, nullptr, nb::str("crossdock").ptr()));
  }
}

}  // namespace crossdock::python
