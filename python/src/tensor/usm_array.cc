#include "usm_array.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../deferred.h"
#include "../gil.h"
#include "../offload/dpctl.h"
#include "../offload/selector.h"
#include "adopted.h"
#include "array_interface.h"
#include "crossdock/core/error.h"
#include "crossdock/device/filter.h"
#include "crossdock/device/sycl.h"
#include "crossdock/exchange/ready.h"
#include "crossdock/exchange/usm_array.h"
#include "dpnp_array.h"
#include "names.h"
#include "queue.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::Tensor;
using device::Queue;
using device::SyclDriver;

constexpr const char* kWhere = "__sycl_usm_array_interface__";
constexpr Py_ssize_t kPartsKept = 64;
constexpr const char* kQueueCapsule = "SyclQueueRef";
constexpr const char* kUsedQueueCapsule = "used_SyclQueueRef";
constexpr const char* kContextCapsule = "SyclContextRef";
constexpr const char* kUsedContextCapsule = "used_SyclContextRef";

[[noreturn]] void fail(const std::string& what) { throw InvalidDataError(std::string(kWhere) + ": " + what); }

SyclDriver& sycl() {
  const auto driver = std::dynamic_pointer_cast<SyclDriver>(drivers().find("sycl"));
  if (driver == nullptr) drivers().for_type(device::DeviceType::kOneApi);  // throws, and says what was tried
  return *driver;
}

/// True if the object is of a class of that name (as C extensions name theirs, with the module) or one derived from it:
/// nothing has to be imported to know.
bool is_a(nb::handle object, std::string_view name) noexcept {
  for (const PyTypeObject* type = Py_TYPE(object.ptr()); type != nullptr; type = type->tp_base) {
    if (type->tp_name == name) return true;
  }
  return false;
}

/// The address of the SYCL object that one of dpctl's holds.
void* held_by(nb::handle object) {
  const nb::object address = object.attr("addressof_ref")();
  const auto number = PyLong_AsSize_t(address.ptr());
  if (number == static_cast<std::size_t>(-1) && PyErr_Occurred() != nullptr) throw nb::python_error();
  return reinterpret_cast<void*>(number);
}

/// The queue of a context: its device's own where that is in this context, so that all who name the place by whatever
/// means are on one queue.
Queue of_context(void* native, const void* pointer) {
  Queue queue = sycl().queue_in(native, pointer);
  const Queue own = drivers().default_queue(queue.device());
  const bool same = !sycl().queue_info(queue).sub_device && sycl().same_context(queue, own);
  return same ? own : queue;
}

/// What a capsule stands for.
Queue of_capsule(nb::handle capsule, const void* pointer) {
  const char* const name = PyCapsule_GetName(capsule.ptr());
  if (name == nullptr) throw InvalidDataError("a capsule without a name stands for no SYCL queue or context");
  void* const native = PyCapsule_GetPointer(capsule.ptr(), name);
  if (native == nullptr) throw nb::python_error();
  if (std::string_view(name) == kQueueCapsule) return sycl().wrap_queue(native);
  if (std::string_view(name) == kContextCapsule) return of_context(native, pointer);
  if (std::string_view(name) == kUsedQueueCapsule || std::string_view(name) == kUsedContextCapsule) {
    throw InvalidDataError("a capsule \"" + std::string(name) + "\" was used before; each is for one consumer");
  }
  throw InvalidDataError("a capsule \"" + std::string(name) +
                         "\" stands for no SYCL queue or context; SyclQueueRef and SyclContextRef are understood");
}

/// As dpctl does it: renamed, with its destructor left to its maker.
void use_up(nb::handle capsule) {
  const bool queue = PyCapsule_IsValid(capsule.ptr(), kQueueCapsule) != 0;
  if (PyCapsule_SetName(capsule.ptr(), queue ? kUsedQueueCapsule : kUsedContextCapsule) != 0) throw nb::python_error();
}

bool is_queue(nb::handle object) noexcept { return is_a(object, "dpctl._sycl_queue._SyclQueue"); }

device::Device device_named(std::string_view filter) {
  try {
    return device::select_device(sycl(), filter);
  } catch (const NotFoundError& error) {
    throw NotFoundError(std::string(kWhere) + ": its syclobj: " + error.what());
  } catch (const InvalidArgumentError& error) {
    fail("its syclobj names no device: " + std::string(error.what()));
  }
}

/// Throws for what stands for no context.
Queue of_syclobj(nb::handle object, const void* pointer) {
  if (const auto queue = sycl_queue_in(object, pointer)) return *queue;
  if (PyUnicode_Check(object.ptr()) != 0) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (text == nullptr) throw nb::python_error();
    return drivers().default_queue(device_named({text, static_cast<std::size_t>(size)}));
  }
  fail(std::string("its syclobj is of type ") + Py_TYPE(object.ptr())->tp_name +
       "; it is a filter string, a SyclContext, a SyclQueue, a capsule of either, or an object with _get_capsule()");
}

/// A producer's own queue: what it stands for orders its work.
bool names_a_queue(nb::handle object) {
  if (is_queue(object) || queue_or_null(object) != nullptr) return true;
  return PyCapsule_CheckExact(object.ptr()) != 0
             ? PyCapsule_IsValid(object.ptr(), kQueueCapsule) != 0
             : !is_a(object, "dpctl._sycl_context._SyclContext") && PyUnicode_Check(object.ptr()) == 0;
}

std::int64_t times(std::int64_t elements, std::int64_t itemsize, const char* what) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, itemsize, &bytes)) fail(std::string("its ") + what + " is beyond 64 bits");
  return bytes;
}

/// The memory of an object without an entry `data`: its buffer, which stays locked, and in which the first element is
/// `offset` bytes from the start.
void read_buffer(PyObject* object, std::int64_t offset, Tensor* tensor) {
  if (object == nullptr || PyObject_CheckBuffer(object) == 0) {
    fail("its entry \"data\" is missing, and there is no buffer to take its place");
  }
  struct Held {
    Py_buffer view{};
    ~Held() { PyBuffer_Release(&view); }
  };
  auto buffer = std::make_unique<Held>();
  if (PyObject_GetBuffer(object, &buffer->view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const Py_buffer& view = buffer->view;
  const array::ByteRange range = array::byte_range(*tensor, kWhere);
  std::int64_t first = 0;
  std::int64_t end = 0;
  const bool overflow =
      __builtin_add_overflow(range.lowest, offset, &first) || __builtin_add_overflow(range.highest, offset, &end);
  if (range.highest != 0 && (overflow || first < 0 || end > view.len)) {
    fail("its elements, which begin at byte " + std::to_string(offset) + " and reach from " +
         std::to_string(range.lowest) + " to " + std::to_string(range.highest) + " of there, leave a buffer of " +
         std::to_string(view.len) + " bytes");
  }
  tensor->data = view.buf;
  tensor->read_only = view.readonly != 0;
  tensor->owner = held(std::shared_ptr<void>(std::move(buffer)));
}

/// `shown`: the object itself has shown the dictionary.
Tensor read(nb::handle interface, nb::handle object, bool shown = false) {
  if (PyDict_Check(interface.ptr()) == 0) {
    PyErr_Format(PyExc_TypeError, "%s must be a dict, not %s", kWhere, Py_TYPE(interface.ptr())->tp_name);
    throw nb::python_error();
  }
  const nb::dict dictionary = nb::borrow<nb::dict>(interface);
  const nb::object version = entry(interface, "version");
  if (version.is_none()) fail("its entry \"version\" is missing");
  const std::int64_t number = integer_in(version, kWhere, "version");
  Tensor tensor;
  const bool has_data = describe_from(dictionary, kWhere, &tensor, Units::kElements);
  if (!has_data && PyDict_Contains(dictionary.ptr(), nb::str("data").ptr()) != 0) {
    fail("its data is no pair of address and read-only flag; the entry is left out where a buffer takes its place");
  }
  const nb::object offset = entry(interface, "offset");
  const std::int64_t shift =
      offset.is_none() ? 0 : times(integer_in(offset, kWhere, "offset"), tensor.type.itemsize(), "offset");
  if (!object.is_none()) tensor.owner = owner_of(object.ptr());
  if (has_data) {
    // dpctl's allocations say True of memory that may be written: there the flag means nothing.
    if (shown && is_a(object, "dpctl.memory._memory._Memory")) tensor.read_only = false;
  } else {
    read_buffer(object.is_none() ? nullptr : object.ptr(), shift, &tensor);
  }
  if (tensor.data != nullptr) tensor.data = static_cast<std::byte*>(tensor.data) + shift;
  const nb::object syclobj = entry(interface, "syclobj");
  if (syclobj.is_none()) fail("its entry \"syclobj\" is missing");
  const bool ordered = names_a_queue(syclobj);
  const bool in_capsule = PyCapsule_CheckExact(syclobj.ptr()) != 0;
  const Queue queue = [&] {
    try {
      return in_capsule ? of_capsule(syclobj, tensor.data) : of_syclobj(syclobj, tensor.data);
    } catch (const InvalidArgumentError& error) {  // a pointer that isn't of that context
      fail(error.what());
    }
  }();
  exchange::import_usm_array(&tensor, number, queue, ordered, drivers());
  if (!has_data && tensor.kind == device::MemoryKind::kDevice && tensor.data != nullptr) {
    fail("its data is missing, and memory of kind \"device\" can have no buffer");
  }
  if (in_capsule) use_up(syclobj);  // what couldn't be taken in may be offered again
  return tensor;
}

/// A Tensor of memory that `deleter` frees.
nb::object adopt(nb::handle desc, nb::handle owner, nb::handle deleter) {
  const nb::object data = PyDict_Check(desc.ptr()) != 0 ? entry(desc, "data") : nb::none();
  if (PyTuple_Check(data.ptr()) == 0 || PyTuple_GET_SIZE(data.ptr()) == 0) {
    fail("a deleter was given, but no entry \"data\" with the address that it frees");
  }
  Adopted adopted(deleter, PyTuple_GET_ITEM(data.ptr(), 0));
  Tensor tensor = read(desc, owner);
  tensor.owner = adopted.owner(std::move(tensor.owner));
  nb::object made = checked(new_tensor(std::move(tensor)));
  adopted.arm();
  return made;
}

/// The filter string of a device as SYCL itself reads it: with its own backend, and counted among its own devices.
std::string sycl_filter_of(const device::Device& device) {
  const device::DeviceInfo wanted = sycl().info(device);
  std::int64_t number = 0;
  for (const device::Device& other : sycl().devices()) {
    if (other == device) break;
    const device::DeviceInfo info = sycl().info(other);
    if (info.backend == wanted.backend && info.device_class == wanted.device_class) ++number;
  }
  return wanted.backend + ":" + std::string(device::device_class_name(wanted.device_class)) + ":" +
         std::to_string(number);
}

/// What goes into `syclobj`.
nb::object syclobj_of(const Queue& queue, PyObject* wanted) {
  if (!given(wanted) || PyUnicode_CompareWithASCIIString(wanted, "queue") == 0) return queue_object(queue);
  if (PyUnicode_CompareWithASCIIString(wanted, "context") == 0) {
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
  if (PyUnicode_CompareWithASCIIString(wanted, "filter") == 0) {
    if (!sycl().same_context(queue, drivers().default_queue(queue.device()))) {
      throw ExportError("a filter string stands for its device's default context, and the memory is in another");
    }
    return nb::str(sycl_filter_of(queue.device()).c_str());
  }
  PyErr_Format(PyExc_ValueError, "syclobj is \"queue\", \"context\" or \"filter\", not %R", wanted);
  throw nb::python_error();
}

/// An address for arrays without elements, in the context of this queue: dpctl takes no null pointer for any. Kept for
/// good, a few bytes for each context.
void* no_elements(const Queue& queue) {
  static std::vector<Tensor>* const made = new std::vector<Tensor>;  // guarded by the interpreter lock
  for (const Tensor& one : *made) {
    if (*one.queue == queue || sycl().same_context(*one.queue, queue)) return one.data;
  }
  const std::int64_t shape[] = {1};
  made->push_back(empty_on(array::parse_element_type("uint8"), shape, queue.device(), &queue));
  return made->back().data;
}

nb::object shown(const Tensor& tensor, PyObject* wanted) {
  const Queue queue = [&] {
    const device::DriverRegistry& all = drivers();
    const GilRelease release;  // it may wait for work that wants the lock
    return exchange::export_usm_array(tensor, all);
  }();
  nb::object syclobj = syclobj_of(queue, wanted);
  // Only who is given an in-order queue itself comes after what is on it.
  const bool ordered = queue_or_null(syclobj) != nullptr && sycl().queue_info(queue).in_order;
  if (!ordered && !exchange::is_ready(tensor)) wait_for(tensor);
  nb::dict interface = interface_of(tensor, exchange::kUsmArrayVersion, Units::kElements);
  interface["offset"] = 0;
  if (tensor.data == nullptr) {
    interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(no_elements(queue)), tensor.read_only);
  }
  interface["syclobj"] = std::move(syclobj);
  return interface;
}

}  // namespace

std::optional<Queue> sycl_queue_in(nb::handle object, const void* pointer) {
  if (const Queue* const own = queue_or_null(object)) {
    if (own->device().type == device::DeviceType::kOneApi) return *own;
    return std::nullopt;
  }
  if (is_queue(object)) return sycl().wrap_queue(held_by(object));
  if (is_a(object, "dpctl._sycl_context._SyclContext")) return of_context(held_by(object), pointer);
  nb::object capsule = nb::borrow(object);
  if (PyCapsule_CheckExact(object.ptr()) == 0) {
    const nb::object get_capsule = optional_attribute(object.ptr(), names::_get_capsule());
    if (!get_capsule.is_valid()) return std::nullopt;
    capsule = get_capsule();
    if (PyCapsule_CheckExact(capsule.ptr()) == 0) {
      throw InvalidDataError("_get_capsule() of an object of type " + std::string(Py_TYPE(object.ptr())->tp_name) +
                             " gives no capsule");
    }
  }
  Queue queue = of_capsule(capsule, pointer);
  use_up(capsule);
  return queue;
}

std::optional<Queue> sycl_queue_of_device(nb::handle object) {
  if (!is_a(object, "dpctl._sycl_device._SyclDevice")) return std::nullopt;
  if (nb::object(object.attr("parent_device")).is_none()) return sycl_queue_in(cached_queue_of(object), nullptr);
  // dpctl gives a part another queue, in another context, each time. The last ones are kept: each division of a device
  // makes new parts.
  static PyObject* const of_parts = PyDict_New();  // guarded by the interpreter lock
  if (of_parts == nullptr) throw nb::python_error();
  PyObject* known = PyDict_GetItemWithError(of_parts, object.ptr());
  if (known == nullptr) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    const nb::object made = queue_object(sycl().make_queue({.native_device = held_by(object)}));
    if (PyDict_GET_SIZE(of_parts) >= kPartsKept) {
      PyObject* oldest = nullptr;
      Py_ssize_t position = 0;
      PyDict_Next(of_parts, &position, &oldest, nullptr);
      if (PyDict_DelItem(of_parts, nb::borrow(oldest).ptr()) != 0) throw nb::python_error();
    }
    known = PyDict_SetDefault(of_parts, object.ptr(), made.ptr());
    if (known == nullptr) throw nb::python_error();
  }
  return *queue_or_null(known);
}

nb::object sycl_queue_capsule(const Queue& queue) {
  // The native queue is ours as long as anybody holds a Queue: the capsule does, whatever its consumer renames it to.
  auto* const keeper = new Queue(queue);
  PyObject* const capsule = PyCapsule_New(
      queue.native(), kQueueCapsule, [](PyObject* self) { delete static_cast<Queue*>(PyCapsule_GetContext(self)); });
  if (capsule == nullptr || PyCapsule_SetContext(capsule, keeper) != 0) {
    delete keeper;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

bool tensor_from_usm_array(PyObject* object, Tensor* out) {
  std::optional<DpnpArray> direct = dpnp_array(object);
  if (direct && direct->proven) {
    *out = std::move(direct->tensor);
    exchange::import_usm_array(out, exchange::kUsmArrayVersion, sycl().wrap_queue(direct->queue), true, drivers());
    return true;
  }
  const nb::object interface = optional_attribute(object, names::__sycl_usm_array_interface__());
  if (!interface.is_valid()) return false;
  *out = read(interface, object, true);
  if (direct) prove_dpnp_array(*direct, *out);
  return true;
}

PyObject* usm_array_interface(PyObject* self, void* /*unused*/) noexcept {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (!exchange::is_usm(tensor)) {
      PyErr_Format(PyExc_AttributeError, "a tensor in memory of %s has no %s", device::to_string(tensor.device).c_str(),
                   kWhere);
      return nullptr;
    }
    return shown(tensor, nullptr).release().ptr();
  });
}

PyObject* usm_array_interface_with(PyObject* self, PyObject* const* arguments, Py_ssize_t positional,
                                   PyObject* keywords) noexcept {
  PyObject* wanted = positional > 0 ? arguments[0] : nullptr;
  PyObject* const known[] = {names::syclobj()};
  PyObject** const out[] = {&wanted};
  if (positional > 1) {
    PyErr_SetString(PyExc_TypeError, "sycl_usm_array_interface() takes syclobj");
    return nullptr;
  }
  if (!names::read_keywords("sycl_usm_array_interface", arguments + positional, keywords, known, out)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (given(wanted) && PyUnicode_Check(wanted) == 0) {
      PyErr_Format(PyExc_TypeError, "syclobj is a str, not %s", Py_TYPE(wanted)->tp_name);
      return nullptr;
    }
    return shown(tensor_of(self), wanted).release().ptr();
  });
}

void bind_usm_array(nb::module_& module) {
  module.def(
      "from_sycl_usm_array_interface",
      [](nb::handle desc, nb::handle owner, nb::handle deleter) {
        drain_deferred();
        return deleter.is_none() ? checked(new_tensor(read(desc, owner))) : adopt(desc, owner, deleter);
      },
      "desc"_a, "owner"_a.none() = nb::none(), nb::kw_only(), "deleter"_a.none() = nb::none(),
      "A Tensor from a dictionary as __sycl_usm_array_interface__ gives it.\n\n"
      "owner: an object to keep as long as anybody looks at the memory, and whose buffer is the memory where the "
      "dictionary has no data; without one the caller sees to that. deleter: a function that takes the address in "
      "data and frees it: called once, when nobody looks at the memory any more, and before the owner goes; not if "
      "this call raises, and not once the interpreter ends.");
}

}  // namespace crossdock::python
