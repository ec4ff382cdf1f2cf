#include "selector.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "../deferred.h"
#include "../tensor/device.h"
#include "../tensor/names.h"
#include "../tensor/queue.h"
#include "../tensor/sycl_objects.h"
#include "../tensor/tensor.h"
#include "../tensor/transfer.h"
#include "crossdock/core/error.h"
#include "crossdock/offload/queue_manager.h"
#include "crossdock/session/runtime.h"
#include "exchange/foreign_stream.h"
#include "placement.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using device::Device;
using device::DeviceType;
using device::Queue;

constexpr const char* kWhatNamesAQueue =
    "a crossdock.Queue, a filter string (\"gpu\", \"cuda:1\"), a crossdock.Device, a SYCL queue, or a stream with "
    "__cuda_stream__";

const offload::Queues& queues() {
  drivers();  // searches for drivers with the options for Python programs, at the first call
  return *session::Runtime::default_runtime()->queues();
}

/// Returns the queue that a text names: a filter string, or else the name of a device.
Queue of_text(const std::string& text) {
  try {
    return queues().queue(text);
  } catch (const InvalidArgumentError&) {
    Device device;
    try {
      device = device::parse_device(text);
    } catch (const InvalidArgumentError&) {
    }
    if (device == Device{}) throw;  // "cpu" is also a filter string, whose error says more
    return queues().queue(device);
  }
}

/// Returns the CUDA device of a stream object, from its attribute `device` or `device_id`: a number, or an object with
/// a number, as in torch and CuPy. Returns nullopt if there is none, or if the number is below 0, by which CuPy means
/// the current device.
std::optional<Device> said_device(nb::handle stream) {
  const auto found = [](const nb::object& number) -> std::optional<Device> {
    const auto id = number.is_valid() ? whole_number(number) : std::nullopt;
    return id && *id >= 0 ? std::optional(Device{DeviceType::kCuda, *id}) : std::nullopt;
  };
  const nb::object device = optional_attribute(stream.ptr(), names::device());
  if (device.is_valid() && !device.is_none()) {
    if (whole_number(device)) return found(device);
    if (PyUnicode_Check(device.ptr()) != 0 || PyTuple_Check(device.ptr()) != 0) return device_in(device);
    bool says = false;
    for (PyObject* const name : {names::index(), names::device_id(), names::id()}) {
      const nb::object number = optional_attribute(device.ptr(), name);
      if (const auto id = found(number)) return id;
      says = says || number.is_valid();
    }
    if (!says) {
      throw InvalidDataError("the attribute \"device\" of a stream is of type " + type_name_of(device.ptr()) +
                             "; it must be a number, or an object with a number as index, device_id or id");
    }
  }
  return found(optional_attribute(stream.ptr(), names::device_id()));
}

/// Imports a stream by `__cuda_stream__`, the protocol of CUDA's Python packages: a pair of version and stream handle.
Queue of_cuda_stream(nb::handle stream, const nb::object& protocol) {
  const nb::object pair = PyCallable_Check(protocol.ptr()) != 0 ? protocol() : protocol;
  if (PyTuple_Check(pair.ptr()) == 0 || nb::len(pair) != 2) {
    throw InvalidDataError("__cuda_stream__ must be, or return, a pair of version and handle");
  }
  const auto version = whole_number(nb::object(pair[0]));
  const auto handle = whole_number(nb::object(pair[1]));
  if (!version || !handle) {
    throw InvalidDataError("version and handle of __cuda_stream__ must be two integers of at most 64 bits");
  }
  if (*version != 0) {
    throw UnsupportedError("__cuda_stream__ has version " + std::to_string(*version) + "; only 0 is supported");
  }
  const device::DriverRegistry& all = queues().drivers();
  if (all.find("cuda") == nullptr) {
    throw UnsupportedError(
        "a CUDA stream can't be used, because CUDA's driver library wasn't found; `crossdock devices` lists the paths "
        "that were tried");
  }
  const auto owner = defer_drop(std::shared_ptr<void>(std::make_shared<PyOwner>(stream.ptr())));
  return exchange::wrap_cuda_stream(*handle, said_device(stream), owner, all);
}

/// Caches the queues that texts have selected, as Python objects.
struct Remembered {
  std::uint64_t version = 0;
  PyObject* by_text = nullptr;     ///< dict
  PyObject* by_default = nullptr;  ///< crossdock.Queue

  void follow(std::uint64_t now) {
    if (by_text != nullptr && version == now) return;
    PyObject* const fresh = checked(PyDict_New()).release().ptr();
    PyObject* const old_texts = std::exchange(by_text, fresh);
    PyObject* const old_default = std::exchange(by_default, nullptr);
    version = now;
    Py_XDECREF(old_texts);
    Py_XDECREF(old_default);
  }
};
Remembered remembered;  // guarded by the GIL. Its objects are never freed: it may be used while the interpreter ends

}  // namespace

std::optional<Queue> named_queue(nb::handle of) {
  if (const Queue* queue = queue_or_null(of)) return *queue;
  if (PyUnicode_Check(of.ptr()) != 0) return of_text(utf8_of(of));
  if (const auto queue = sycl_queue_in(of, nullptr)) return *queue;
  if (const auto queue = sycl_queue_of_device(of)) return *queue;
  const nb::object stream = optional_attribute(of.ptr(), names::__cuda_stream__());
  if (stream.is_valid()) return of_cuda_stream(of, stream);
  const bool pair = PyTuple_Check(of.ptr()) != 0 && tuple_size(of.ptr()) == 2;
  if (!pair && !nb::isinstance<Device>(of)) return std::nullopt;
  return queues().queue(device_in(of));
}

Queue select_queue(nb::handle of) {
  if (auto queue = named_queue(of)) return *std::move(queue);
  throw_python(PyExc_TypeError, "a queue must be %s, not %s", kWhatNamesAQueue, type_name_of(of.ptr()).c_str());
}

Queue queue_of(nb::handle of) {
  if (auto queue = named_queue(of)) return *std::move(queue);
  PyObject* const object = of.ptr();
  nb::object placed;
  try {
    placed = placement_of(&object, 1, nullptr);
  } catch (const UnsupportedTypeError&) {
    throw UnsupportedTypeError("an object of type " + type_name_of(object) +
                               " is neither an array nor a queue; a queue must be " + kWhatNamesAQueue);
  }
  if (placed.is_valid()) return *queue_or_null(placed);
  throw InvalidArgumentError("an array in host memory is on no queue; give a queue instead");
}

Device select_device(nb::handle of) {
  if (PyUnicode_Check(of.ptr()) == 0) return device_in(of);
  try {
    return device_in(of);
  } catch (const InvalidArgumentError&) {
    return select_queue(of).device();
  }
}

nb::object select_queue_object(nb::handle of) {
  if (queue_or_null(of) != nullptr) return nb::borrow(of);
  if (PyUnicode_CheckExact(of.ptr()) == 0) return queue_object(select_queue(of));
  remembered.follow(queues().drivers().devices_version());
  PyObject* const known = PyDict_GetItemWithError(remembered.by_text, of.ptr());
  if (known != nullptr) return nb::borrow(known);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  const std::uint64_t version = remembered.version;
  nb::object queue = queue_object(of_text(utf8_of(of)));
  // The GIL may have been released meanwhile: if another thread has seen changed devices, the result isn't cached.
  if (remembered.version != version) return queue;
  if (PyDict_SetItem(remembered.by_text, of.ptr(), queue.ptr()) != 0) throw nb::python_error();
  return queue;
}

PyObject* default_queue_object() {
  remembered.follow(queues().drivers().devices_version());
  if (remembered.by_default == nullptr) {
    nb::object queue = queue_object(queues().default_queue());
    // Another thread may have set it meanwhile.
    if (remembered.by_default == nullptr) remembered.by_default = queue.release().ptr();
  }
  return remembered.by_default;
}

}  // namespace crossdock::python
