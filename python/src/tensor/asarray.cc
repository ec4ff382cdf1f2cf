#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>

#include "../deferred.h"
#include "crossdock/core/error.h"
#include "element_type.h"
#include "names.h"
#include "place.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::Tensor;

bool tensor_from_array_method(PyObject* object, Tensor* out) {
  PyObject* method = nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  if (PyObject_GetOptionalAttr(object, names::__array__(), &method) < 0) throw nb::python_error();
#else
  if (_PyObject_LookupAttr(object, names::__array__(), &method) < 0) throw nb::python_error();
#endif
  if (method == nullptr) return false;
  const nb::object held = nb::steal(method);
  const nb::object array = checked(PyObject_CallNoArgs(method));
  return tensor_from_buffer(array.ptr(), out) || tensor_from_array_interface(array.ptr(), out);
}

/// The options that asarray() and from_dlpack() share; borrowed, null or None where not given.
struct Options {
  PyObject* device = nullptr;
  PyObject* copy = nullptr;
};

bool given(PyObject* object) noexcept { return object != nullptr && object != Py_None; }

std::optional<bool> truth(PyObject* object) {
  if (!given(object)) return std::nullopt;
  const int value = PyObject_IsTrue(object);
  if (value < 0) throw nb::python_error();
  return value != 0;
}

/// What asarray(object, device=, copy=) makes of a tensor of the object.
Tensor placed(Tensor tensor, const Options& options) {
  const device::Device target = given(options.device) ? device_in(options.device) : tensor.device;
  const std::optional<bool> copy = truth(options.copy);
  const bool elsewhere = target != tensor.device;
  if (!elsewhere && copy != true) return tensor;
  if (copy == false) {
    throw ExportError("a copy is needed to bring an array in memory of " + device::to_string(tensor.device) + " to " +
                      device::to_string(target) + ", and copy=False forbids it");
  }
  return copy_to(tensor, target, nullptr);
}

/// Fills `*out` from keyword arguments named in `known`. False, with the Python error set, for others.
template <std::size_t kCount>
bool read_keywords(const char* function, PyObject* const* values, PyObject* keywords, PyObject* const (&known)[kCount],
                   PyObject** (&out)[kCount]) noexcept {
  const Py_ssize_t n = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(keywords, i);
    bool found = false;
    for (std::size_t k = 0; k < kCount && !found; ++k) {
      if (name != known[k] && PyUnicode_Compare(name, known[k]) != 0) continue;
      *out[k] = values[i];
      found = true;
    }
    if (!found) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
      return false;
    }
  }
  return true;
}

PyObject* asarray(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t positional,
                  PyObject* keywords) noexcept {
  if (positional < 1 || positional > 3) {
    PyErr_SetString(PyExc_TypeError, "asarray() takes an object, and optionally device and copy");
    return nullptr;
  }
  PyObject* const object = arguments[0];
  Options options;
  if (positional > 1) options.device = arguments[1];
  if (positional > 2) options.copy = arguments[2];
  if (keywords != nullptr) {
    PyObject* const known[] = {names::device(), names::copy()};
    PyObject** out[] = {&options.device, &options.copy};
    if (!read_keywords("asarray", arguments + positional, keywords, known, out)) return nullptr;
  }
  return guarded([&] {
    drain_deferred();
    const bool as_it_is = !given(options.device) && !given(options.copy);
    if (is_tensor(object) && as_it_is) {
      Py_INCREF(object);
      return object;
    }
    Tensor tensor;
    if (is_tensor(object)) {
      tensor = tensor_of(object);
    } else {
      tensor_from_any(object, &tensor);
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
    PyObject** out[] = {&options.device, &options.copy};
    if (!read_keywords("from_dlpack", arguments + positional, keywords, known, out)) return nullptr;
  }
  return guarded([&] {
    drain_deferred();
    nb::object dl_device = nb::none();
    if (given(options.device)) {
      const device::Device target = device_in(options.device);
      const bool cpu = target.type == device::DeviceType::kCpu;
      dl_device = nb::make_tuple(static_cast<int>(target.type), cpu ? 0 : target.id);
    }
    Tensor tensor;
    if (!tensor_from_dlpack(arguments[0], dl_device.ptr(), options.copy, &tensor)) {
      throw UnsupportedTypeError("an object of type " + std::string(Py_TYPE(arguments[0])->tp_name) +
                                 " has no __dlpack__");
    }
    return new_tensor(std::move(tensor));
  });
}

PyMethodDef functions[] = {
    {"asarray", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(asarray)), METH_FASTCALL | METH_KEYWORDS,
     "asarray(obj, device=None, copy=None)\n--\n\n"
     "Any array as a Tensor, without a copy where none is asked for.\n\n"
     "Takes what speaks the buffer protocol, DLPack (in Python or C), Arrow, the CUDA Array Interface or NumPy's array "
     "interface.\n\ndevice: where it must be (\"cpu\", \"cuda:1\"); None: where it is. copy: True always copies, False "
     "raises BufferError where one is needed."},
    {"from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_dlpack)),
     METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\n"
     "A Tensor from an object with __dlpack__, by that protocol alone: as the Python array API standard says."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void tensor_from_any(PyObject* object, Tensor* out) {
  if (is_tensor(object)) {
    *out = tensor_of(object);
    return;
  }
  if (PyObject_CheckBuffer(object) != 0) {
    if (tensor_from_buffer(object, out)) return;
    // NumPy's dates, texts and structures are no buffers, or of no single format, and DLPack hasn't them at all.
    if (tensor_from_array_interface(object, out)) return;
  }
  if (tensor_from_exchange_api(object, out)) return;
  if (tensor_from_dlpack(object, nullptr, nullptr, out)) {
    note_default_queue(out);
    return;
  }
  if (tensor_from_array_interface(object, out)) return;
  if (tensor_from_array_method(object, out)) return;
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
