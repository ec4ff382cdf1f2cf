#include "sycl_objects.h"

#include <cstdint>
#include <memory>

#include "../offload/dpctl.h"
#include "c_descriptor.h"
#include "crossdock/core/error.h"
#include "names.h"
#include "queue.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using device::Queue;
using device::SyclDriver;

constexpr Py_ssize_t kPartsKept = 64;
constexpr const char* kQueueCapsule = "SyclQueueRef";
constexpr const char* kUsedQueueCapsule = "used_SyclQueueRef";
constexpr const char* kContextCapsule = "SyclContextRef";
constexpr const char* kUsedContextCapsule = "used_SyclContextRef";

constexpr const char* kQueueClass = "dpctl._sycl_queue.SyclQueue";
constexpr const char* kContextClass = "dpctl._sycl_context.SyclContext";
constexpr const char* kDeviceClass = "dpctl._sycl_device.SyclDevice";

/// Returns the address of the SYCL object that a dpctl object holds. Calls the method of dpctl's own class `dpctls`,
/// which checks the object. A method that a derived Python class overrides could return any address.
void* held_by(nb::handle object, PyTypeObject* dpctls) {
  const nb::object address = nb::handle(reinterpret_cast<PyObject*>(dpctls)).attr("addressof_ref")(object);
  const auto number = PyLong_AsSize_t(address.ptr());
  if (number == static_cast<std::size_t>(-1) && PyErr_Occurred() != nullptr) throw nb::python_error();
  return reinterpret_cast<void*>(number);
}

/// Returns the queue for a context: the device's default queue if that is in this context, else the driver's queue for
/// the context. So all ways to name the default context lead to the same queue.
Queue of_context(void* native, const void* pointer) {
  Queue queue = sycl().queue_in(device::NativeContext(native), pointer);
  const Queue own = drivers().default_queue(queue.device());
  const bool same = !sycl().queue_info(queue).sub_device && sycl().same_context(queue, own);
  return same ? own : queue;
}

}  // namespace

SyclDriver& sycl() {
  const auto driver = std::dynamic_pointer_cast<SyclDriver>(drivers().find("sycl"));
  if (driver == nullptr) drivers().for_type(device::DeviceType::kOneApi);  // throws; the message says what was tried
  return *driver;
}

Queue queue_of_capsule(nb::handle capsule, const void* pointer) {
  const char* const name = PyCapsule_GetName(capsule.ptr());
  if (name == nullptr) throw InvalidDataError("a capsule without a name is not a SYCL queue or context");
  void* const native = PyCapsule_GetPointer(capsule.ptr(), name);
  if (native == nullptr) throw nb::python_error();
  if (std::string_view(name) == kQueueCapsule) return sycl().wrap_queue(device::NativeQueue(native));
  if (std::string_view(name) == kContextCapsule) return of_context(native, pointer);
  if (std::string_view(name) == kUsedQueueCapsule || std::string_view(name) == kUsedContextCapsule) {
    throw InvalidDataError("a capsule \"" + std::string(name) + "\" was already used; a capsule can be used only once");
  }
  throw InvalidDataError("a capsule \"" + std::string(name) +
                         "\" is not a SYCL queue or context; SyclQueueRef and SyclContextRef are supported");
}

void use_up(nb::handle capsule) {
  const bool queue = PyCapsule_IsValid(capsule.ptr(), kQueueCapsule) != 0;
  if (PyCapsule_SetName(capsule.ptr(), queue ? kUsedQueueCapsule : kUsedContextCapsule) != 0) throw nb::python_error();
}

bool stands_for_a_queue(nb::handle object) {
  if (c_class_of(object, kQueueClass) != nullptr || queue_or_null(object) != nullptr) return true;
  return PyCapsule_CheckExact(object.ptr()) != 0
             ? PyCapsule_IsValid(object.ptr(), kQueueCapsule) != 0
             : c_class_of(object, kContextClass) == nullptr && PyUnicode_Check(object.ptr()) == 0;
}

std::string sycl_filter_of(const device::Device& device) {
  const device::DeviceInfo wanted = sycl().info(device);
  const bool named = !wanted.backend.empty();  // else the number counts all devices of this class
  std::int64_t number = 0;
  for (const device::Device& other : sycl().devices()) {
    if (other == device) break;
    const device::DeviceInfo info = sycl().info(other);
    if ((!named || info.backend == wanted.backend) && info.device_class == wanted.device_class) ++number;
  }
  return (named ? wanted.backend + ":" : "") + std::string(device::device_class_name(wanted.device_class)) + ":" +
         std::to_string(number);
}

std::optional<Queue> sycl_queue_in(nb::handle object, const void* pointer) {
  if (const Queue* const own = queue_or_null(object)) {
    if (own->device().type == device::DeviceType::kOneApi) return *own;
    return std::nullopt;
  }
  if (PyTypeObject* const type = c_class_of(object, kQueueClass))
    return sycl().wrap_queue(device::NativeQueue(held_by(object, type)));
  if (PyTypeObject* const type = c_class_of(object, kContextClass)) return of_context(held_by(object, type), pointer);
  nb::object capsule = nb::borrow(object);
  if (PyCapsule_CheckExact(object.ptr()) == 0) {
    const nb::object get_capsule = optional_attribute(object.ptr(), names::_get_capsule());
    if (!get_capsule.is_valid()) return std::nullopt;
    capsule = get_capsule();
    if (PyCapsule_CheckExact(capsule.ptr()) == 0) {
      throw InvalidDataError("_get_capsule() of an object of type " + type_name_of(object.ptr()) +
                             " didn't return a capsule");
    }
  }
  Queue queue = queue_of_capsule(capsule, pointer);
  use_up(capsule);
  return queue;
}

std::optional<Queue> sycl_queue_of_device(nb::handle object) {
  PyTypeObject* const type = c_class_of(object, kDeviceClass);
  if (type == nullptr) return std::nullopt;
  if (nb::object(object.attr("parent_device")).is_none()) return sycl_queue_in(cached_queue_of(object), nullptr);
  // dpctl makes a new queue in a new context each time for a sub-device, so queues are cached here. The cache is
  // limited to the last kPartsKept, because each partition of a device makes new sub-devices.
  static PyObject* const of_parts = PyDict_New();  // guarded by the GIL
  if (of_parts == nullptr) throw nb::python_error();
  PyObject* known = PyDict_GetItemWithError(of_parts, object.ptr());
  if (known == nullptr) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    const nb::object made =
        queue_object(sycl().make_queue({.native_device = device::NativeDevice(held_by(object, type))}));
    if (PyDict_Size(of_parts) >= kPartsKept) {
      PyObject* oldest = nullptr;
      Py_ssize_t position = 0;
      PyDict_Next(of_parts, &position, &oldest, nullptr);
      if (PyDict_DelItem(of_parts, nb::borrow(oldest).ptr()) != 0) throw nb::python_error();
    }
    if (PyDict_SetItem(of_parts, object.ptr(), made.ptr()) != 0) throw nb::python_error();
    known = made.ptr();  // which the dictionary holds
  }
  return *queue_or_null(known);
}

nb::object sycl_queue_capsule(const Queue& queue) {
  // The native queue lives as long as a Queue holds it. The capsule's context holds one, whatever the consumer renames
  // the capsule to.
  auto* const keeper = new Queue(queue);
  PyObject* const capsule = PyCapsule_New(
      queue.native(), kQueueCapsule, [](PyObject* self) { delete static_cast<Queue*>(PyCapsule_GetContext(self)); });
  if (capsule == nullptr || PyCapsule_SetContext(capsule, keeper) != 0) {
    delete keeper;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

nb::object sycl_context_capsule(const Queue& queue) {
  auto* const context = new std::shared_ptr<void>(sycl().queue_info(queue).context);
  PyObject* const capsule = PyCapsule_New(context->get(), kContextCapsule, [](PyObject* self) {
    delete static_cast<std::shared_ptr<void>*>(PyCapsule_GetContext(self));
  });
  if (capsule == nullptr || PyCapsule_SetContext(capsule, context) != 0) {
    delete context;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

}  // namespace crossdock::python
