#include "queue.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "../deferred.h"
#include "../gil.h"
#include "../offload/selector.h"
#include "../wait.h"
#include "array_interface.h"
#include "crossdock/core/error.h"
#include "crossdock/device/driver.h"
#include "crossdock/session/context.h"
#include "place.h"
#include "tensor.h"
#include "transfer.h"
#include "usm_array.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using device::Device;
using device::Event;
using device::Queue;

std::shared_ptr<device::Context> context_of(const Device& device) { return drivers().context(device); }

/// crossdock.Queue
struct PyQueue {
  Queue queue;
};

/// crossdock.Event
struct PyEvent {
  Event event;
  Device device;
};

/// A handle as a number; nothing for None.
std::optional<std::intptr_t> native_in(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  if (PyIndex_Check(object.ptr()) == 0 || PyBool_Check(object.ptr()) != 0) {
    PyErr_Format(PyExc_TypeError, "native is a queue's handle, an int, not %s", Py_TYPE(object.ptr())->tp_name);
    throw nb::python_error();
  }
  return integer_in(object, "Queue()", "native");
}

PyQueue make(nb::handle of, nb::handle handle, nb::handle owner, const std::optional<std::string>& name) {
  const std::optional<std::intptr_t> native = native_in(handle);
  if (native && name) throw InvalidArgumentError("a queue is another library's (native) or has a name, not both");
  if (name) {
    const Device device = select_queue(of).device();
    drivers();
    return {session::Context::default_context()->queues()->queue(device, *name)};
  }
  if (!native) return {select_queue(of)};
  std::shared_ptr<void> keeper;
  if (!owner.is_none()) keeper = held(std::shared_ptr<void>(std::make_shared<PyOwner>(owner.ptr())));
  return {context_of(device_in(of))->wrap_queue(reinterpret_cast<void*>(*native), std::move(keeper))};
}

PyEvent record(const PyQueue& self) {
  const auto context = context_of(self.queue.device());
  Event event = context->record(self.queue);
  return {std::move(event), self.queue.device()};
}

void wait(const PyEvent& self) { wait_for_event(*context_of(self.device), self.event); }

void order_after(const PyQueue& self, nb::handle object) {
  PyEvent* given = nullptr;
  if (!nb::try_cast(object, given) || given == nullptr) {
    PyErr_Format(PyExc_TypeError, "wait_for() takes a crossdock.Event, not %s", Py_TYPE(object.ptr())->tp_name);
    throw nb::python_error();
  }
  const PyEvent& event = *given;
  const auto context = context_of(self.queue.device());
  if (context_of(event.device)->driver_name() != context->driver_name()) {
    wait(event);  // No queue can be ordered after another driver's event.
    return;
  }
  const GilRelease release;
  context->order_after(self.queue, event.event);
}

}  // namespace

std::optional<Queue> queue_in(nb::handle object) {
  if (!given(object.ptr())) return std::nullopt;
  return select_queue(object);
}

const Queue* queue_or_null(nb::handle object) noexcept {
  PyQueue* queue = nullptr;
  return nb::try_cast(object, queue) && queue != nullptr ? &queue->queue : nullptr;
}

nb::object queue_object(const Queue& queue) { return nb::cast(PyQueue{queue}); }

nb::object event_object(const Event& event, const Device& device) { return nb::cast(PyEvent{event, device}); }

void bind_queue(nb::module_& module) {
  nb::class_<PyEvent>(module, "Event", "A point in a queue's work. Safe to share between threads; lives by itself.")
      .def_prop_ro("device", [](const PyEvent& self) { return self.device; })
      .def_prop_ro(
          "done", [](const PyEvent& self) { return context_of(self.device)->query(self.event); },
          "Whether the work before it is done. Raises what that work failed with.")
      .def_prop_ro(
          "native", [](const PyEvent& self) { return reinterpret_cast<std::uintptr_t>(self.event.native()); },
          "The address that Arrow's sync_event has: of a cudaEvent_t, say; 0 if there is nothing to wait for.")
      .def("wait", wait, "Waits until the work before it is done. Raises what that work failed with.");

  nb::class_<PyQueue>(module, "Queue",
                      "An in-order queue of a device's work: a CUDA stream, say. Work on it runs one after another; "
                      "work on two of them at once, unless one waits for the other. Safe to share between threads.")
      .def(
          "__init__",
          [](PyQueue* self, nb::handle of, nb::handle native, nb::handle owner,
             const std::optional<std::string>& name) { new (self) PyQueue(make(of, native, owner, name)); },
          "of"_a.none(), "native"_a.none() = nb::none(), nb::kw_only(), "owner"_a.none() = nb::none(),
          "name"_a.none() = nb::none(),
          "The queue that `of` names: a filter string (\"gpu\", \"cuda:1\", \"opencl:cpu:0\"), a Device, an object "
          "with __cuda_stream__, or a Queue. The same name is the same queue everywhere.\n\n"
          "native: a queue of device `of` that another library made, by its handle as a number (a cudaStream_t; 1 and "
          "2 are CUDA's default streams; 2 is another one on every thread, and the Queue serves on this one alone); "
          "owner: an object to keep as long as anybody uses it. name: another queue of "
          "the device than its own, the same one for everybody who asks for this name.")
      .def_static(
          "new", [](nb::handle of) { return PyQueue{context_of(select_queue(of).device())->make_queue()}; }, "of"_a,
          "A new queue, which nobody else has, of the device that `of` names.")
      .def_prop_ro("device", [](const PyQueue& self) { return self.queue.device(); })
      .def_prop_ro(
          "native", [](const PyQueue& self) { return reinterpret_cast<std::uintptr_t>(self.queue.native()); },
          "The handle as a number, for other libraries.")
      .def(
          "_get_capsule",
          [](const PyQueue& self) {
            if (self.queue.device().type == device::DeviceType::kOneApi) return sycl_queue_capsule(self.queue);
            PyErr_SetString(PyExc_AttributeError, "a queue that isn't SYCL's has no SyclQueueRef");
            throw nb::python_error();
          },
          "A capsule \"SyclQueueRef\", for dpctl and those that take its queues; SYCL's queues only.")
      .def("record", record, "An event that stands for the end of the work that is on the queue now.")
      .def("wait_for", order_after, "event"_a.none(),
           "Work put on the queue from now on starts after the event. Returns at once, but for an event of another "
           "driver, which is waited for here.")
      .def(
          "wait", [](const PyQueue& self) { wait(record(self)); },
          "Waits until all the work that is on the queue now is done.")
      .def(
          "__eq__",
          [](const PyQueue& self, nb::handle other) {
            PyQueue* that = nullptr;
            return nb::try_cast(other, that) && that != nullptr && self.queue == that->queue;
          },
          "other"_a.none())
      .def("__hash__",
           [](const PyQueue& self) {
             return static_cast<Py_hash_t>(reinterpret_cast<std::intptr_t>(self.queue.native()) >> 4);
           })
      .def("__repr__", [](const PyQueue& self) {
        return "<crossdock.Queue of " + device::to_string(self.queue.device()) + ", native " +
               std::to_string(reinterpret_cast<std::uintptr_t>(self.queue.native())) + ">";
      });
}

}  // namespace crossdock::python
