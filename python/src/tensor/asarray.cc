#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../deferred.h"
#include "../offload/manager.h"
#include "../offload/placement.h"
#include "../offload/selector.h"
#include "../offload/usm_type.h"
#include "arrow.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/dlpack.h"
#include "cuda_array.h"
#include "element_type.h"
#include "names.h"
#include "queue.h"
#include "tensor.h"
#include "transfer.h"
#include "usm_array.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::Tensor;
using device::Device;
using device::Queue;

/// Throws UnsupportedError for NumPy's MaskedArray and classes derived from it: its memory is a buffer, but no protocol
/// carries its mask.
void refuse_masked_array(PyObject* object) {
  if (PyObject_CheckBuffer(object) == 0 || !is_made_from(Py_TYPE(object), "MaskedArray")) return;
  throw UnsupportedError(
      "no protocol carries the mask of a NumPy masked array; fill it first (.filled()), or pass its .data and .mask");
}

/// Imports a NumPy scalar: numbers and bools by their buffer, others by __array__(). The scalar's own
/// __array_interface__ points into an array that is already freed, and the buffer of a date only says bytes. Returns
/// false for other objects.
bool tensor_from_scalar(PyObject* object, const ImportOptions& options, Tensor* out) {
  if (!is_made_from(Py_TYPE(object), "numpy.generic")) return false;
  const auto is = [&](const char* name) { return is_made_from(Py_TYPE(object), name); };
  const bool number = is("numpy.number") && !is("numpy.timedelta64");
  if ((number || is("numpy.bool") || is("numpy.bool_")) && tensor_from_buffer(object, out)) return true;
  if (options.copy == false) {
    throw ExportError("importing a " + type_name_of(object) + " needs a copy, but copy=False forbids it");
  }
  const nb::object array = checked(call_method_named(object, names::__array__()));
  if (!tensor_from_array_interface(array.ptr(), out)) return false;
  out->read_only = true;  // as all scalars are, whatever protocol they come by
  return true;
}

/// Throws the reason why the buffer of an object couldn't be imported: the object's own error, or a format that is no
/// element type. Returns if the object has no buffer.
void fail_for_buffer(PyObject* object) {
  if (PyObject_CheckBuffer(object) == 0) return;
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_RECORDS_RO) != 0) throw nb::python_error();
  const std::string format = view.format != nullptr ? view.format : "B";
  PyBuffer_Release(&view);
  throw UnsupportedTypeError("an object of type " + type_name_of(object) + " has a buffer of format \"" + format +
                             "\", which is neither a number nor bytes");
}

/// Returns true if the buffer of objects of this type tells all: they have no device protocol, and are neither masked
/// arrays nor scalars of NumPy. Caches the last type, because most objects with a buffer are of the same one.
bool has_plain_buffer(PyTypeObject* type) {
  struct Known {
    PyTypeObject* type = nullptr;
    unsigned version = 0;  // shows if the type was changed; 0: that can't be known
    bool plain = false;
  };
  static Known known;  // guarded by the GIL
  if (known.version != 0 && type == known.type && version_of(type) == known.version) return known.plain;
  const bool plain = type_attribute(type, names::__sycl_usm_array_interface__()) == nullptr &&
                     type_attribute(type, names::__cuda_array_interface__()) == nullptr &&
                     !is_made_from(type, "MaskedArray") && !is_made_from(type, "numpy.generic");
  known = {type, version_of(type), plain};
  return plain;
}

bool tensor_from_array_method(PyObject* object, const ImportOptions& options, Tensor* out) {
  const nb::object held = optional_attribute(object, names::__array__());
  if (!held.is_valid()) return false;
  // A producer that doesn't know the argument (NumPy before 2.0) raises TypeError, which is passed on: such a producer
  // can't promise that it makes no copy.
  const nb::object array =
      options.copy == false ? held(nb::arg("copy") = false) : nb::object(checked(PyObject_CallNoArgs(held.ptr())));
  if (PyObject_CheckBuffer(array.ptr()) == 0) {
    throw InvalidDataError("__array__() of an object of type " + type_name_of(object) + " returned a " +
                           type_name_of(array.ptr()) + ", which is not an array");
  }
  refuse_masked_array(array.ptr());
  return tensor_from_buffer(array.ptr(), out) || tensor_from_array_interface(array.ptr(), out);
}

/// The method __dlpack__ of tables and streams of ours, which only says which call helps. Set by bind_asarray(), and an
/// intentional leak.
PyObject* refusing_dlpack = nullptr;

bool refuses_dlpack(PyTypeObject* type) { return type_attribute(type, names::__dlpack__()) == refusing_dlpack; }

/// Imports what an instance of a class derived from crossdock.Exports describes, as its exports do. Returns false for
/// other objects.
bool tensor_from_description(PyObject* object, Tensor* out) {
  if (type_attribute(Py_TYPE(object), names::__crossdock_array__()) == nullptr) return false;
  const nb::object described = nb::module_::import_("crossdock._exports").attr("described")(nb::handle(object));
  *out = tensor_of(described.ptr());
  return true;
}

/// Arguments of asarray(), from_dlpack() and the like. Borrowed; null or None if not given.
struct Options {
  PyObject* device = nullptr;
  PyObject* copy = nullptr;
  PyObject* queue = nullptr;
  PyObject* usm_type = nullptr;
  PyObject* sync = nullptr;
};

/// Throws InvalidArgumentError for the host: a kind of memory is only meaningful for a device that has several.
void require_device(const Device& device) {
  if (device != Device{}) return;
  throw InvalidArgumentError(
      "usm_type is the kind of device memory, but host memory has none: give a queue or a device that isn't the host, "
      "as in queue=\"gpu\"");
}

/// Describes memory for error messages, as in "shared memory of oneapi:0".
std::string memory_text(const Device& device, const std::optional<device::MemoryKind>& kind) {
  return (kind && device != Device{} ? std::string(usm_type_name(*kind)) + " " : "") + "memory of " +
         device::to_string(device);
}

/// Applies the options device, copy, queue and usm_type of asarray() to an imported tensor. Returns the tensor itself,
/// the tensor associated with the queue, or a copy.
Tensor placed(Tensor tensor, const Options& options) {
  const std::optional<Queue> queue = queue_in(options.queue);
  const Device target = given(options.device) ? select_device(options.device) : queue ? queue->device() : tensor.device;
  const std::optional<device::MemoryKind> kind = usm_type_in(options.usm_type);
  if (kind) require_device(target);
  const std::optional<bool> copy = truth(options.copy);
  // A copy on the device of its source keeps the kind of memory, as with copy().
  const auto kept = kind || target != tensor.device ? kind : std::optional(tensor.kind);
  const bool elsewhere = target != tensor.device || (kind && kind != usm_type_of(tensor));
  if (!elsewhere && copy != true) {
    if (queue) require_queue_of(*queue, target);
    if (!queue) return tensor;
    if (std::optional<Tensor> associated = associated_with(tensor, *queue)) return *std::move(associated);
    if (copy == false) {
      throw ExportError("a copy is needed, because the queue can't access the memory of the array, which is of " +
                        device::to_string(tensor.device) + " but of another context; copy=False forbids it");
    }
  }
  if (elsewhere && copy != true && !queue && target == Device{} && tensor.host_accessible()) return on_host(tensor);
  if (copy == false) {
    throw ExportError("an array in " + memory_text(tensor.device, usm_type_of(tensor)) + " needs a copy to " +
                      memory_text(target, kind) + ", but copy=False forbids it");
  }
  if (queue && queue->device() == target) return copy_to_queue(tensor, *queue, kept);
  return copy_to(tensor, target, queue ? &*queue : nullptr, kept);
}

/// Applies the options device and copy of from_dlpack() to an imported tensor, because the producer may have ignored
/// them. `copied`: the producer made a copy.
Tensor as_asked(Tensor tensor, const std::optional<Device>& target, std::optional<bool> copy, bool copied) {
  const Device there = exchange::dlpack_device(tensor.device);
  const bool elsewhere = target && *target != there;
  if (!elsewhere && (copy != true || copied)) return tensor;
  const Device to = elsewhere ? *target : tensor.device;
  if (copy != true && to == Device{} && tensor.host_accessible()) return on_host(tensor);
  if (copy == false) {
    throw ExportError("the producer gave an array in memory of " + device::to_string(tensor.device) + " instead of " +
                      device::to_string(to) + ", but copy=False forbids a copy");
  }
  return copy_for_dlpack(tensor, to, elsewhere ? std::nullopt : std::optional(tensor.kind));
}

PyObject* asarray(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t positional,
                  PyObject* keywords) noexcept {
  if (positional < 1 || positional > 4) {
    PyErr_SetString(PyExc_TypeError, "asarray() takes an object and, optionally, device, copy and queue");
    return nullptr;
  }
  PyObject* const object = arguments[0];
  Options options;
  if (positional > 1) options.device = arguments[1];
  if (positional > 2) options.copy = arguments[2];
  if (positional > 3) options.queue = arguments[3];
  if (keywords != nullptr) {
    PyObject* const known[] = {names::device(), names::copy(), names::queue(), names::usm_type(), names::sync()};
    PyObject** const out[] = {&options.device, &options.copy, &options.queue, &options.usm_type, &options.sync};
    if (!names::read_keywords("asarray", arguments + positional, keywords, known, out)) return nullptr;
  }
  return guarded([&] {
    drain_deferred();
    const bool as_it_is =
        !given(options.device) && !given(options.copy) && !given(options.queue) && !given(options.usm_type);
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
    return is_tensor(object) ? derived(object, std::move(tensor)).release().ptr() : new_tensor(std::move(tensor));
  });
}

PyObject* from_dlpack(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t positional,
                      PyObject* keywords) noexcept {
  if (positional != 1) {
    PyErr_SetString(PyExc_TypeError, "from_dlpack() takes an object and, as keywords, device and copy");
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
    refuse_masked_array(arguments[0]);
    nb::object dl_device = nb::none();
    std::optional<Device> target;
    if (given(options.device)) {
      target = exchange::dlpack_device(select_device(options.device));
      dl_device = nb::make_tuple(static_cast<int>(target->type), target->id);
    }
    Tensor tensor;
    bool copied = false;
    // The C functions have no options, and are many times faster than a __dlpack__ that is written in Python.
    const bool as_it_is = !given(options.device) && !given(options.copy);
    if (as_it_is && !is_tensor(arguments[0]) && tensor_from_exchange_api(arguments[0], &tensor)) {
      return new_tensor(std::move(tensor));
    }
    if (!tensor_from_dlpack(arguments[0], dl_device.ptr(), options.copy, &tensor, &copied)) {
      throw UnsupportedTypeError("an object of type " + type_name_of(arguments[0]) + " has no __dlpack__");
    }
    return new_tensor(as_asked(std::move(tensor), target, truth(options.copy), copied));
  });
}

PyObject* empty(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) noexcept {
  if (positional < 1 || positional > 2) {
    PyErr_SetString(PyExc_TypeError, "empty() takes a shape and, optionally, a dtype");
    return nullptr;
  }
  PyObject* dtype = positional > 1 ? arguments[1] : nullptr;
  Options options;
  PyObject* const known[] = {names::dtype(), names::device(), names::queue(), names::usm_type()};
  PyObject** const out[] = {&dtype, &options.device, &options.queue, &options.usm_type};
  if (!names::read_keywords("empty", arguments + positional, keywords, known, out)) return nullptr;
  return guarded([&] {
    drain_deferred();
    const auto type = given(dtype) ? element_type_in(dtype) : array::ElementType{};
    // Without queue and device, the array is placed on the current queue, if the program chose one.
    PyObject* const chosen = given(options.queue) || given(options.device) ? options.queue : chosen_queue();
    const std::optional<Queue> queue = queue_in(chosen);
    const Device device = given(options.device) ? select_device(options.device) : queue ? queue->device() : Device{};
    const std::optional<device::MemoryKind> kind = usm_type_in(options.usm_type);
    if (kind) require_device(device);
    return new_tensor(empty_on(type, shape_in(arguments[0]), device, queue ? &*queue : nullptr, kind));
  });
}

PyMethodDef functions[] = {
    {"asarray", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(asarray)), METH_FASTCALL | METH_KEYWORDS,
     "asarray(obj, device=None, copy=None, queue=None, *, usm_type=None, sync=None)\n--\n\n"
     "Returns any array as a Tensor. Copies only if an argument asks for it.\n\n"
     "Accepts objects with the buffer protocol, DLPack (in Python or C), Arrow, the CUDA Array Interface, the SYCL "
     "USM array interface or NumPy's array interface.\n\n"
     "obj: such an object.\n"
     "device: the device of the result (\"cpu\", \"cuda:1\"). None: the device of the array.\n"
     "copy: True always copies. False raises BufferError if a copy is needed. None copies if needed.\n"
     "queue: the queue on which a copy runs. Without a device, the result is on the device of the queue.\n"
     "usm_type: the kind of device memory of the result: \"device\", \"shared\" or \"host\".\n"
     "sync: whether the result is ordered after the stream of the CUDA Array Interface. None: the value of "
     "set_cuda_array_interface_sync()."},
    {"empty", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(empty)), METH_FASTCALL | METH_KEYWORDS,
     "empty(shape, dtype=\"float64\", *, device=None, queue=None, usm_type=None)\n--\n\n"
     "Returns a new Tensor in C order. The memory is not initialized.\n\n"
     "shape: the elements along each dimension; a number for one dimension.\n"
     "dtype: any argument of DType().\n"
     "queue: any argument of Queue(). Work on the memory runs on this queue or is ordered after it.\n"
     "device: the device of the memory, if it isn't the queue's. With neither, the memory is on the current queue "
     "(crossdock.offload) if the program chose one, else on the host.\n"
     "usm_type: the kind of device memory: \"device\", \"shared\" or \"host\".\n\n"
     "Raises `InvalidArgumentError` for a negative extent, an unknown dtype, and a usm_type that is unknown or that "
     "host memory can't have; `InvalidDataError` if the size is beyond the address space; `NotFoundError` or "
     "`UnsupportedError` if there is no such device; `ResourceError` if there isn't enough memory."},
    {"from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_dlpack)),
     METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\n"
     "Returns a Tensor of an object with __dlpack__, as the Python array API standard specifies. Without device and "
     "copy, uses DLPack's C exchange API where the object's type has it, and no other protocol.\n\n"
     "x: the object.\n"
     "device, copy: as for asarray().\n\n"
     "Raises `UnsupportedTypeError` for an object without __dlpack__, `ExportError` if a copy is needed and `copy` "
     "is False, `InvalidDataError` for a malformed capsule, and the errors of __dlpack__()."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

std::vector<std::int64_t> shape_in(PyObject* object) {
  const auto extent_in = [](PyObject* one) {
    const Py_ssize_t extent = PyNumber_AsSsize_t(one, PyExc_OverflowError);
    if (extent == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (extent < 0)
      throw InvalidArgumentError("the extents of a tensor must not be negative; one was " + std::to_string(extent));
    return static_cast<std::int64_t>(extent);
  };
  if (PyIndex_Check(object) != 0) return {extent_in(object)};
  const nb::object sequence = checked(PySequence_Fast(object, "shape must be an int or a sequence of ints"));
  std::vector<std::int64_t> shape;
  const Py_ssize_t count = PySequence_Size(sequence.ptr());
  for (Py_ssize_t i = 0; i < count; ++i)
    shape.push_back(extent_in(checked(PySequence_GetItem(sequence.ptr(), i)).ptr()));
  return shape;
}

void tensor_from_any(PyObject* object, const ImportOptions& options, Tensor* out) {
  if (is_tensor(object)) {
    *out = tensor_of(object);
    return;
  }
  if (PyObject_CheckBuffer(object) != 0) {
    if (!has_plain_buffer(Py_TYPE(object))) {
      if (tensor_from_description(object, out)) return;
      // Shared, managed and pinned memory may also have a buffer, but that doesn't tell its device and its stream.
      if (tensor_from_usm_array(object, out) || tensor_from_cuda_array(object, options.sync, out)) return;
      refuse_masked_array(object);
      if (tensor_from_scalar(object, options, out)) return;
    }
    if (tensor_from_buffer(object, out)) return;
    // NumPy's dates, texts and structures have no buffer, or one without a single format, and DLPack has no such types.
    if (tensor_from_array_interface(object, out)) return;
  }
  if (tensor_from_exchange_api(object, out)) return;
  // Before Arrow, which has no writable memory.
  if (tensor_from_description(object, out)) return;
  // Before DLPack: Arrow data is read-only, and some producers don't say so in DLPack.
  if (tensor_from_arrow(object, exchange::BoolPolicy::kRefuse, false, out)) return;
  // Before DLPack: the SYCL interface names the queue.
  if (tensor_from_usm_array(object, out)) return;
  PyObject* const copy = options.copy == false ? Py_False : nullptr;
  if (!refuses_dlpack(Py_TYPE(object)) && tensor_from_dlpack(object, nullptr, copy, out)) return;
  if (tensor_from_cuda_array(object, options.sync, out)) return;
  if (tensor_from_array_interface(object, out)) return;
  // Before __array__, which silently turns nulls into NaN and copies chunks together.
  if (tensor_from_arrow(object, exchange::BoolPolicy::kRefuse, true, out)) return;
  if (tensor_from_array_method(object, options, out)) return;
  fail_for_buffer(object);
  const bool values = PyList_Check(object) != 0 || PyTuple_Check(object) != 0 || PyNumber_Check(object) != 0;
  throw UnsupportedTypeError(
      "an object of type " + type_name_of(object) + " is not an array: it " +
      (values ? "has values, but no array memory; make an array first, as in numpy.asarray(x)"
              : "has none of __dlpack__, __dlpack_c_exchange_api__, __arrow_c_array__, __arrow_c_device_array__, "
                "__arrow_c_stream__, __cuda_array_interface__, __sycl_usm_array_interface__, __array_interface__, "
                "__array__, and no buffer"));
}

void bind_asarray(nb::module_& module) {
  refusing_dlpack = nb::object(nb::module_::import_("crossdock._columns").attr("__dlpack__")).release().ptr();
  for (PyMethodDef* function = functions; function->ml_name != nullptr; ++function) {
    module.attr(function->ml_name) = checked(PyCFunction_NewEx(function, nullptr, nb::str("crossdock").ptr()));
  }
  def_tensor_method(
      "to",
      [](const TensorObject& self, nb::handle device, nb::handle queue) -> nb::object {
        drain_deferred();
        if (queue.is_none() && select_device(device) == (*self).device) return self;
        return derived(self.ptr(), placed(Tensor(*self), {.device = device.ptr(), .queue = queue.ptr()}));
      },
      "device"_a.none(), nb::kw_only(), "queue"_a.none() = nb::none(),
      "Returns the elements in memory of a device: this tensor if it is there, else a copy. On the way to the CPU, "
      "memory that the host can read (pinned, managed, SYCL's host and shared memory) is shared, after a wait for the "
      "pending work; with a queue it is copied.\n\n"
      "device: the device (\"cpu\", \"cuda:0\").\n"
      "queue: the queue on which the copy runs. The copy may still be under way when this returns; consumers of the "
      "result are ordered after it. Without a queue, the copy runs on the default queue of the device, and a copy to "
      "the host is complete when this returns.\n\n"
      "Raises `InvalidArgumentError` for a text that names no device and for a queue of another device, "
      "`NotFoundError` or `UnsupportedError` if there is no such device, and `ResourceError` if there isn't enough "
      "memory.");
  def_tensor_method(
      "copy",
      [](const TensorObject& self, nb::handle queue) {
        drain_deferred();
        const std::optional<Queue> its = queue_in(queue);
        return derived(self.ptr(), copy_to(*self, (*self).device, its ? &*its : nullptr, (*self).kind));
      },
      nb::kw_only(), "queue"_a.none() = nb::none(),
      "Returns a copy in new, writable memory of the same device.\n\nqueue: as for to().\n\n"
      "Raises `InvalidArgumentError` for a queue of another device, `NotFoundError` or `UnsupportedError` if there "
      "is no such queue, and `ResourceError` if there isn't enough memory.");
}

}  // namespace crossdock::python
