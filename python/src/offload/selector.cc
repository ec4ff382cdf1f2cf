#include "selector.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>

#include "../deferred.h"
#include "../tensor/names.h"
#include "../tensor/place.h"
#include "../tensor/queue.h"
#include "../tensor/sycl_objects.h"
#include "../tensor/tensor.h"
#include "../tensor/transfer.h"
#include "crossdock/core/error.h"
#include "crossdock/offload/queues.h"
#include "crossdock/session/context.h"
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
  drivers();  // looks for them as Python programs want it
  return *session::Context::default_context()->queues();
}

/// A text is a filter string, or, as elsewhere, the name of a device.
Queue of_text(const std::string& text) {
  try {
    return queues().queue(text);
  } catch (const InvalidArgumentError&) {
    Device device;
    try {
      device = device::parse_device(text);
    } catch (const InvalidArgumentError&) {
    }
    if (device == Device{}) throw;  // "cpu" is a filter string; what is said of it then says more
    return queues().queue(device);
  }
}

/// The protocol of CUDA's Python packages: a pair of its version and the stream's handle.
Queue of_cuda_stream(nb::handle stream, const nb::object& protocol) {
  const nb::object pair = PyCallable_Check(protocol.ptr()) != 0 ? protocol() : protocol;
  if (PyTuple_Check(pair.ptr()) == 0 || nb::len(pair) != 2) {
    throw InvalidDataError("__cuda_stream__ gives a pair of version and handle");
  }
  const long version = PyLong_AsLong(nb::object(pair[0]).ptr());
  const auto handle = static_cast<std::intptr_t>(PyLong_AsSsize_t(nb::object(pair[1]).ptr()));
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  if (version != 0) throw UnsupportedError("__cuda_stream__ is of version " + std::to_string(version) + "; 0 is known");
  const device::DriverRegistry& all = queues().drivers();
  const auto driver = all.find("cuda");
  if (driver == nullptr) throw UnsupportedError("a CUDA stream was given, and CUDA's driver library wasn't found here");
  // Which device's it is, only its context knows.
  std::string why = "CUDA has no devices";
  for (const Device& device : driver->devices()) {
    try {
      const auto owner = held(std::shared_ptr<void>(std::make_shared<PyOwner>(stream.ptr())));
      return all.context(device)->wrap_queue(reinterpret_cast<void*>(handle), owner);
    } catch (const InvalidArgumentError& error) {
      why = error.what();
    }
  }
  throw InvalidArgumentError("no device here has the stream that was given: " + why);
}

/// What was chosen by texts before, as Python objects.
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
Remembered remembered;  // guarded by the interpreter lock, and never freed: it may be asked as the interpreter ends

}  // namespace

std::optional<Queue> named_queue(nb::handle of) {
  if (const Queue* queue = queue_or_null(of)) return *queue;
  if (PyUnicode_Check(of.ptr()) != 0) return of_text(utf8_of(of));
  if (const auto queue = sycl_queue_in(of, nullptr)) return *queue;
  if (const auto queue = sycl_queue_of_device(of)) return *queue;
  const nb::object stream = optional_attribute(of.ptr(), names::__cuda_stream__());
  if (stream.is_valid()) return of_cuda_stream(of, stream);
  const bool pair = PyTuple_Check(of.ptr()) != 0 && PyTuple_GET_SIZE(of.ptr()) == 2;
  if (!pair && !nb::isinstance<Device>(of)) return std::nullopt;
  return queues().queue(device_in(of));
}

Queue select_queue(nb::handle of) {
  if (auto queue = named_queue(of)) return *std::move(queue);
  PyErr_Format(PyExc_TypeError, "a queue is %s, not %s", kWhatNamesAQueue, Py_TYPE(of.ptr())->tp_name);
  throw nb::python_error();
}

Queue queue_of(nb::handle of) {
  if (auto queue = named_queue(of)) return *std::move(queue);
  PyObject* const object = of.ptr();
  nb::object placed;
  try {
    placed = placement_of(&object, 1, nullptr);
  } catch (const UnsupportedTypeError&) {
    throw UnsupportedTypeError("an object of type " + std::string(Py_TYPE(object)->tp_name) +
                               " is neither an array nor a queue; a queue is " + kWhatNamesAQueue);
  }
  if (placed.is_valid()) return *queue_or_null(placed);
  throw InvalidArgumentError("an array of the host is on no queue; name one to collocate with");
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
  // That may have let others run, for whom the devices were other ones.
  if (remembered.version != version) return queue;
  if (PyDict_SetItem(remembered.by_text, of.ptr(), queue.ptr()) != 0) throw nb::python_error();
  return queue;
}

PyObject* default_queue_object() {
  remembered.follow(queues().drivers().devices_version());
  if (remembered.by_default == nullptr) {
    nb::object queue = queue_object(queues().default_queue());
    // Somebody else may have been here meanwhile.
    if (remembered.by_default == nullptr) remembered.by_default = queue.release().ptr();
  }
  return remembered.by_default;
}

}  // namespace crossdock::python
