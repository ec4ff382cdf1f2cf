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
#include "../text.h"
#include "../wait.h"
#include "array_interface.h"
#include "crossdock/core/error.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/registry.h"
#include "crossdock/device/sycl.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/runtime.h"
#include "sycl_objects.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::Tensor;
using device::Device;
using device::Event;
using device::Queue;

/// Returns the queue's context, opened without the GIL.
std::shared_ptr<device::Context> context_of(const Queue& queue) {
  return without_gil([&] { return drivers().context(queue); });
}

/// crossdock.Queue
struct PyQueue {
  Queue queue;
};

/// crossdock.Event
struct PyEvent {
  Event event;
  device::DeviceContext of;  ///< The context of its queue.

  std::shared_ptr<device::Context> context() const {
    return without_gil([&] { return drivers().context(of.device, of.native); });
  }
};

/// Reads the argument `native`, a handle as a number. Returns nullopt for None.
std::optional<std::intptr_t> native_in(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  if (!is_int(object)) throw_type_error(object, "native must be a queue's handle, an int");
  const std::int64_t native = integer_in(object, "Queue()", "native");
  if (native < 0) throw InvalidArgumentError("native must be a queue's handle; it was " + std::to_string(native));
  return native;
}

/// Returns the SYCL driver if the queue is one of SYCL's, else null.
std::shared_ptr<device::SyclDriver> sycl_of(const Queue& queue) {
  return std::dynamic_pointer_cast<device::SyclDriver>(drivers().for_type(queue.device().type));
}

/// Returns true for a SYCL queue that isn't in its device's default context or that is on a sub-device.
bool in_own_place(const Queue& queue) {
  const auto sycl = sycl_of(queue);
  if (sycl == nullptr) return false;
  return sycl->queue_info(queue).sub_device || !sycl->same_context(queue, drivers().default_queue(queue.device()));
}

/// Makes a new queue on the device, and for SYCL in the context, of the queue that `of` names.
PyQueue make_another(nb::handle of) {
  const Queue like = select_queue(of);
  const auto sycl = sycl_of(like);
  if (sycl == nullptr) return {context_of(like)->make_queue()};
  const device::SyclQueueInfo info = sycl->queue_info(like);
  return {sycl->make_queue({.native_device = device::NativeDevice(info.native_device.get()),
                            .native_context = device::NativeContext(info.context.get())})};
}

PyQueue make(nb::handle of, nb::handle handle, nb::handle owner, const std::optional<std::string>& name) {
  const std::optional<std::intptr_t> native = native_in(handle);
  if (native && name)
    throw InvalidArgumentError("give either native, for a queue of another library, or name, not both");
  if (name) {
    const Queue own = select_queue(of);
    if (in_own_place(own)) {
      throw InvalidArgumentError(
          "only queues of a whole device in its default context can have a name; for another context or a sub-device, "
          "make a queue with Queue.new() and pass that queue");
    }
    return {session::Runtime::default_runtime()->queues()->queue(own.device(), *name)};
  }
  if (!native) return {select_queue(of)};
  std::shared_ptr<void> keeper;
  if (!owner.is_none()) keeper = defer_drop(std::shared_ptr<void>(std::make_shared<PyOwner>(owner.ptr())));
  return {context_of(select_queue(of))
              ->wrap_queue(device::NativeQueue(reinterpret_cast<void*>(*native)), std::move(keeper))};
}

PyEvent record(const PyQueue& self) {
  const GilRelease release;  // see pending_without_lock()
  return {context_of(self.queue)->record(self.queue), {self.queue.device(), self.queue.native_context()}};
}

std::uintptr_t address_of(const PyQueue& self) { return reinterpret_cast<std::uintptr_t>(self.queue.native()); }

std::string filter_of(const Device& device) { return device::filter_of(drivers(), device); }

std::string name_of(const Queue& queue) {
  drivers();
  return session::Runtime::default_runtime()->queues()->name_of(queue);
}

bool in_order(const PyQueue& self) { return context_of(self.queue)->in_order(self.queue); }

/// Doesn't throw an error of the driver: leaves out the properties that can't be queried.
std::string queue_text(const PyQueue& self) {
  const Queue& queue = self.queue;
  std::string text = "<crossdock.Queue of " + device::to_string(queue.device());
  try {
    if (const std::string filter = filter_of(queue.device()); !filter.empty()) text += " (\"" + filter + "\")";
    if (const std::string name = name_of(queue); !name.empty()) text += ", name " + utf8_of(nb::repr(displayed(name)));
    if (!in_order(self)) text += ", out of order";
  } catch (const std::exception&) {  // the driver was closed, or belongs to the parent of a fork
  }
  if (queue.native() != nullptr) text += ", native " + std::string(nb::str("{:#x}").format(address_of(self)).c_str());
  return text + ">";
}

bool done(const PyEvent& self) {
  return without_gil([&] { return self.context()->query(self.event); });
}

std::uintptr_t native(const PyEvent& self) { return reinterpret_cast<std::uintptr_t>(self.event.native()); }

void wait(const PyEvent& self) { wait_for_event(self.context(), self.event); }

void order_after(const PyQueue& self, nb::handle object) {
  PyEvent* given = nullptr;
  if (!nb::try_cast(object, given) || given == nullptr) throw_type_error(object, "wait_for() takes a crossdock.Event");
  const PyEvent& event = *given;
  const auto context = context_of(self.queue);
  if (event.context()->driver_name() != context->driver_name()) {
    wait(event);  // A queue can't be ordered after an event of another driver.
    return;
  }
  const GilRelease release;
  context->order_after(self.queue, event.event);
}

nb::object after(const TensorObject& self, const PyEvent& event) {
  Tensor tensor = *self;
  // Without the GIL: see pending_without_lock().
  without_gil([&] { exchange::add_work(&tensor, event.context(), event.event, drivers(), wait_for_event); });
  return derived(self.ptr(), std::move(tensor));
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

nb::object event_object(const Event& event, const device::DeviceContext& of) { return nb::cast(PyEvent{event, of}); }

void def_after() {
  def_tensor_method(
      "after", after, "event"_a,
      "Returns the same memory, on which more work is pending: every consumer is ordered after it, too. For a "
      "result whose work isn't on its queue, as in asarray(result).after(queue.record()).\n\n"
      "event: the event at the end of that work.\n\n"
      "Raises the error of failed work, and that of the driver if it can put no order on a queue, such as "
      "`SystemError`.");
}

void bind_queue(nb::module_& module) {
  nb::class_<PyEvent>(module, "Event",
                      "A point in the work of a queue. Stays valid without the queue. Safe to share between threads.")
      .def_prop_ro(
          "device", [](const PyEvent& self) { return self.of.device; }, "The device on which the work runs.")
      .def_prop_ro("done", done, "Whether the work before this point is done. Raises the error of failed work.")
      .def_prop_ro("native", native,
                   "The address for Arrow's sync_event, for example of a cudaEvent_t; 0 if there is no pending work.")
      .def("wait", wait, "Waits until the work before this point is done. Raises the error of failed work.")
      .def("__repr__",
           [](const PyEvent& self) { return "<crossdock.Event of " + device::to_string(self.of.device) + ">"; });

  nb::class_<PyQueue>(module, "Queue",
                      "Queue(of, native=None, *, owner=None, name=None)\n--\n\n"
                      "A queue of work on a device: a CUDA stream or a SYCL queue. Work that Crossdock submits to one "
                      "queue runs in order (see in_order). Work on two queues may run at the same time, unless one "
                      "waits for the other. Safe to share between threads.")
      .def(
          "__init__",
          [](PyQueue* self, nb::handle of, nb::handle native, nb::handle owner,
             const std::optional<std::string>& name) { new (self) PyQueue(make(of, native, owner, name)); },
          "of"_a.none(), "native"_a.none() = nb::none(), nb::kw_only(), "owner"_a.none() = nb::none(),
          "name"_a.none() = nb::none(),
          "Returns the queue that `of` selects. Equal arguments select the same queue everywhere in the process.\n\n"
          "of: a filter string (\"gpu\", \"cuda:1\", \"opencl:cpu:0\"), a Device, a Queue, an object with "
          "__cuda_stream__, a dpctl.SyclQueue, SyclDevice or SyclContext, a capsule \"SyclQueueRef\", or an object "
          "whose _get_capsule() returns one. A default stream of CUDA belongs to the device that its object has as "
          "`device` or `device_id`, else to the current device.\n"
          "native: the handle, as a number, of a queue of that device that another library made: a sycl::queue* or a "
          "cudaStream_t. The handle must be valid. 1 and 2 are the default streams of CUDA; 2 is the stream of this "
          "thread, and the Queue can be used only on this thread.\n"
          "owner: an object that is kept alive as long as the native queue is used.\n"
          "name: selects another queue than the default queue of the device. The same name always returns the same "
          "queue.\n\n"
          "Raises `NotFoundError` or `UnsupportedError` if there is no such device, `InvalidArgumentError` for a "
          "text that is no filter string and for `native` together with `name`, and `TypeError` for an object that "
          "is no queue.")
      .def_static("new", make_another, "of"_a,
                  "Makes a new in-order queue of the device that `of` selects. For a SYCL queue or context, the new "
                  "queue is of the same context.\n\n"
                  "Raises the errors of Queue(), and those of the driver if it can make no queue, such as "
                  "`ResourceError`.")
      .def_prop_ro(
          "device", [](const PyQueue& self) { return self.queue.device(); }, "The device on which the work runs.")
      .def_prop_ro(
          "filter", [](const PyQueue& self) { return filter_of(self.queue.device()); },
          "The filter string of its device; empty if the device no longer exists.")
      .def_prop_ro(
          "name",
          [](const PyQueue& self) -> nb::object {
            const std::string name = name_of(self.queue);
            return name.empty() ? nb::none() : nb::object(displayed(name));
          },
          "The name given to Queue(of, name=); None for any other queue.")
      .def_prop_ro(
          "in_order", in_order,
          "Whether all work on the queue runs in order. False for out-of-order SYCL queues, as dpctl makes for a "
          "device: on these, only work that is submitted through Crossdock runs in order.")
      .def_prop_ro("native", address_of, "The handle as a number, for other libraries.")
      .def(
          "_get_capsule",
          [](const PyQueue& self) {
            if (self.queue.device().type == device::DeviceType::kOneApi) return sycl_queue_capsule(self.queue);
            throw_python(PyExc_AttributeError, "only SYCL queues have a SyclQueueRef");
          },
          "Returns a capsule \"SyclQueueRef\", for dpctl and other consumers of its queues. Raises AttributeError for "
          "other queues than SYCL's.")
      .def("record", record,
           "Returns an event for the end of the work that is on the queue now. On an out-of-order SYCL queue it waits "
           "for that work first, and Ctrl-C doesn't end that wait; wait() can be interrupted.\n\n"
           "Raises the error of the driver if that fails, such as `SystemError`.")
      .def("wait_for", order_after, "event"_a.none(),
           "Orders work that is submitted from now on after an event. Returns at once, except for an event of another "
           "driver and on an out-of-order SYCL queue: then it waits for the event.\n\n"
           "event: an event of any device.\n\n"
           "Raises the error of the driver if that fails, such as `SystemError`.")
      .def(
          "wait", [](const PyQueue& self) { wait_for_queue(context_of(self.queue), self.queue); },
          "Waits until all work that is on the queue now is done.\n\n"
          "Raises the error of failed work, such as `SystemError`, and what a signal handler raises, such as "
          "`KeyboardInterrupt`.")
      .def(
          "__eq__",
          [](const PyQueue& self, nb::handle other) {
            PyQueue* that = nullptr;
            return nb::try_cast(other, that) && that != nullptr && self.queue == that->queue;
          },
          "other"_a.none())
      .def("__hash__", [](const PyQueue& self) { return static_cast<Py_hash_t>(address_of(self) >> 4); })
      .def("__repr__", queue_text);
  for (const char* name : {"Queue", "Event"}) module.attr(name).attr("__module__") = "crossdock";
}

}  // namespace crossdock::python
