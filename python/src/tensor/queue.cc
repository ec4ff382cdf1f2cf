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
#include "crossdock/core/error.h"
#include "crossdock/device/driver.h"
#include "place.h"
#include "transfer.h"

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

PyQueue make(nb::handle of, std::optional<std::intptr_t> native, nb::handle owner) {
  const Device device = device_in(of);
  const auto context = context_of(device);
  if (!native) return {context->make_queue()};
  std::shared_ptr<void> keeper;
  if (!owner.is_none()) keeper = held(std::shared_ptr<void>(std::make_shared<PyOwner>(owner.ptr())));
  return {context->wrap_queue(reinterpret_cast<void*>(*native), std::move(keeper))};
}

PyEvent record(const PyQueue& self) {
  const auto context = context_of(self.queue.device());
  Event event = context->make_event();
  context->record(event, self.queue);
  return {std::move(event), self.queue.device()};
}

void wait(const PyEvent& self) {
  const auto context = context_of(self.device);
  const GilRelease release;
  context->wait(self.event);
}

void wait_for_event(const PyQueue& self, const PyEvent& event) {
  const auto context = context_of(self.queue.device());
  if (context_of(event.device)->driver_name() != context->driver_name()) {
    wait(event);  // No queue can be ordered after another driver's event.
    return;
  }
  const GilRelease release;
  context->order_after(self.queue, event.event);
}

}  // namespace

const Queue* queue_in(nb::handle object) {
  if (object.is_none()) return nullptr;
  PyQueue* queue = nullptr;
  if (!nb::try_cast(object, queue) || queue == nullptr) {
    PyErr_Format(PyExc_TypeError, "queue is a crossdock.Queue or None, not %s", Py_TYPE(object.ptr())->tp_name);
    throw nb::python_error();
  }
  return &queue->queue;
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
          [](PyQueue* self, nb::handle of, std::optional<std::intptr_t> native, nb::handle owner) {
            new (self) PyQueue(make(of, native, owner));
          },
          "device"_a, "native"_a.none() = nb::none(), nb::kw_only(), "owner"_a.none() = nb::none(),
          "A new queue of this device, or one that another library made: its handle as a number (a cudaStream_t; 1 and "
          "2 are CUDA's default streams). owner: an object to keep as long as anybody uses the queue.")
      .def_prop_ro("device", [](const PyQueue& self) { return self.queue.device(); })
      .def_prop_ro(
          "native", [](const PyQueue& self) { return reinterpret_cast<std::uintptr_t>(self.queue.native()); },
          "The handle as a number, for other libraries.")
      .def("record", record, "An event that stands for the end of the work that is on the queue now.")
      .def("wait_for", wait_for_event, "event"_a,
           "Work put on the queue from now on starts after the event. Returns at once, but for an event of another "
           "driver, which is waited for here.")
      .def(
          "wait", [](const PyQueue& self) { wait(record(self)); },
          "Waits until all the work that is on the queue now is done.")
      .def(
          "__eq__",
          [](const PyQueue& self, nb::handle other) {
            PyQueue* that = nullptr;
            return nb::try_cast(other, that) && that != nullptr && self.queue.device() == that->queue.device() &&
                   self.queue.native() == that->queue.native();
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
