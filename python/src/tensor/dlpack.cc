#include "crossdock/exchange/dlpack.h"
#include "exchange/memory_kind.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "../deferred.h"
#include "../gil.h"
#include "../wait.h"
#include "c_descriptor.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/offload/placement.h"
#include "names.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::Tensor;

constexpr const char* kVersioned = "dltensor_versioned";
constexpr const char* kLegacy = "dltensor";
constexpr const char* kApi = "dlpack_exchange_api";

template <class Managed>
constexpr const char* name_of() noexcept {
  return std::is_same_v<Managed, DLManagedTensor> ? kLegacy : kVersioned;
}
template <class Managed>
constexpr const char* used_name_of() noexcept {
  return std::is_same_v<Managed, DLManagedTensor> ? "used_dltensor" : "used_dltensor_versioned";
}

/// Destructor of a DLPack capsule. Calls the deleter only if the capsule wasn't consumed: a consumer renames the
/// capsule and then owns the struct.
template <class Managed>
void destroy_dlpack(PyObject* capsule) noexcept {
  if (PyCapsule_IsValid(capsule, name_of<Managed>()) == 0) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name_of<Managed>()));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <class Managed>
PyObject* capsule_of(Managed* managed) noexcept {
  PyObject* const capsule = PyCapsule_New(managed, name_of<Managed>(), &destroy_dlpack<Managed>);
  if (capsule == nullptr) managed->deleter(managed);
  return capsule;
}

/// Makes an owner of the struct that a producer gave. It calls the deleter at once if the thread holds the GIL, which a
/// deleter may need; else it leaves the call to drop() (deferred.h). Returns null if there is no deleter.
template <class Managed>
std::shared_ptr<const void> owner_of_managed(Managed* managed) {
  if (managed->deleter == nullptr) return nullptr;
  struct Release {
    void operator()(Managed* self) const noexcept {
      struct Now {
        void operator()(Managed* late) const noexcept { late->deleter(late); }
      };
      if (holds_gil()) [[likely]] {
        const SavedError saved;
        Now{}(self);
      } else {
        drop(std::shared_ptr<Managed>(self, Now{}));
      }
    }
  };
  return std::shared_ptr<const void>(managed, Release{});
}

/// Makes a tensor that owns the producer's struct. Takes ownership of the struct even if it throws.
template <class Managed>
Tensor take(Managed* managed, std::uint64_t flags) {
  std::shared_ptr<const void> owner = owner_of_managed(managed);
  Tensor tensor = exchange::view_dlpack(managed->dl_tensor, flags);
  tensor.owner = std::move(owner);
  const device::DeviceType type = tensor.device.type;
  if (type != device::DeviceType::kCpu && (exchange::leaves_kind_open(type) || exchange::leaves_device_open(type))) {
    // For an array without elements, the pointer that the producer gave tells the memory.
    const void* const address = tensor.data != nullptr ? tensor.data : managed->dl_tensor.data;
    without_gil([&] { exchange::resolve_memory_kind(&tensor, address, drivers()); });
  }
  return tensor;
}

Tensor take(DLManagedTensorVersioned* managed, bool* copied = nullptr) {
  if (managed == nullptr) throw InvalidDataError("a DLPack producer gave a null pointer");
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    // In other major versions only the deleter is at a known place. This owner calls it when the function throws.
    // NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores)
    const std::shared_ptr<const void> owner = owner_of_managed(managed);
    throw UnsupportedTypeError("a DLPack producer gave a tensor of version " + std::to_string(managed->version.major) +
                               "." + std::to_string(managed->version.minor) + "; version 1 was requested");
  }
  const std::uint64_t flags = managed->flags;
  if (copied != nullptr) *copied = (flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0;
  return take(managed, flags);
}

// Arguments of __dlpack__

struct ExportRequest {
  PyObject* stream = nullptr;  // borrowed; null or None: not given
  PyObject* max_version = nullptr;
  PyObject* dl_device = nullptr;
  PyObject* copy = nullptr;
};

/// Reads the arguments of __dlpack__. Returns false, with the Python error set, if one is unknown.
bool parse(PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords, ExportRequest* request) noexcept {
  if (positional != 0) {
    PyErr_SetString(PyExc_TypeError, "__dlpack__() takes keyword arguments only");
    return false;
  }
  PyObject* const known[] = {names::max_version(), names::dl_device(), names::copy(), names::stream()};
  PyObject** const slots[] = {&request->max_version, &request->dl_device, &request->copy, &request->stream};
  return names::read_keywords("__dlpack__", arguments, keywords, known, slots);
}

/// Reads a tuple of two ints of 32 bits. `what` names it in errors. Throws nb::python_error.
std::pair<long, long> pair_in(PyObject* object, const char* what) {
  if (PyTuple_Check(object) == 0 || tuple_size(object) != 2) {
    throw_python(PyExc_TypeError, "%s must be a tuple of two ints", what);
  }
  const long first = PyLong_AsLong(tuple_item(object, 0));
  const long second = first == -1 && PyErr_Occurred() != nullptr ? 0 : PyLong_AsLong(tuple_item(object, 1));
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  if (first != static_cast<std::int32_t>(first) || second != static_cast<std::int32_t>(second)) {
    throw_python(PyExc_ValueError, "%s has a number beyond 32 bits", what);
  }
  return {first, second};
}

bool is_versioned(const ExportRequest& request) {
  if (!given(request.max_version)) return false;
  return pair_in(request.max_version, "max_version").first >= 1;
}

device::Device device_of(const ExportRequest& request) {
  const auto [type, id] = pair_in(request.dl_device, "dl_device");
  return {.type = static_cast<device::DeviceType>(type), .id = id};
}

/// Returns true if the tensor can be exported without any work: there is nothing to copy and nothing to order.
bool needs_no_work(const Tensor& tensor, const ExportRequest& request) {
  return is_complete(tensor) && tensor.native_context == nullptr && !given(request.dl_device) && !given(request.copy) &&
         !given(request.stream);
}

/// Returns true if the consumer asks for memory of the host, and gets the tensor's own.
bool shared_with_host(const Tensor& tensor, const device::Device& target, std::optional<bool> copy) noexcept {
  return target == device::Device{} && copy != true && tensor.host_accessible();
}

/// Returns the device to copy to: the consumer's, or the tensor's own if the consumer asks for a copy there. Returns
/// nullopt if no copy is needed. Throws ExportError if a copy is needed and copy=False forbids it.
std::optional<device::Device> copy_target(const Tensor& tensor, const ExportRequest& request) {
  const bool elsewhere = given(request.dl_device) && device_of(request) != exchange::dlpack_device(tensor.device);
  const std::optional<bool> copy = truth(request.copy);
  if (!elsewhere && copy != true) return std::nullopt;
  const device::Device target = elsewhere ? device_of(request) : tensor.device;
  if (shared_with_host(tensor, target, copy)) return std::nullopt;
  if (copy == false) {
    throw ExportError("exporting a tensor in memory of " + device::to_string(tensor.device) + " to " +
                      device::to_string(target) + " needs a copy, but copy=False forbids it");
  }
  return target;
}

/// Throws ExportError if the tensor has an event of a device without a driver here: no driver can wait for it or order
/// a queue after it, and only Arrow can pass it on. Accepts streams that are out of reach (device/memory.h).
void refuse_foreign_event(const Tensor& tensor) {
  if (tensor.queue || tensor.ready()) return;
  const auto open = [&] { return without_gil([&] { return drivers().context(tensor.device); }); };
  or_export_error(open, "this process can't wait for the work on the tensor, so it can only be exported by Arrow: ");
}

PyObject* export_capsule(const Tensor& tensor, const ExportRequest& request, bool copied) {
  if (is_versioned(request)) return capsule_of(exchange::export_dlpack(tensor, exchange::Order::kMade, copied));
  return capsule_of(exchange::export_dlpack_legacy(tensor, exchange::Order::kMade));
}

}  // namespace

PyObject* dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept {
  return guarded([&]() -> PyObject* {
    ExportRequest request;
    if (!parse(arguments, positional, names, &request)) return nullptr;
    const Tensor& own = tensor_of(self);
    if (needs_no_work(own, request)) [[likely]]
      return export_capsule(own, request, false);
    refuse_foreign_event(own);
    // `stream` is one of the producer's device, even if the consumer asks for a copy on another device.
    const ConsumerStream stream = consumer_stream(own.device, given(request.stream) ? request.stream : nullptr);
    const std::optional<device::Device> target = copy_target(own, request);
    const bool to_host = given(request.dl_device) && shared_with_host(own, device_of(request), truth(request.copy));
    const Tensor tensor = target ? copy_for_dlpack(own, *target) : to_host ? on_host(own) : own;
    tensor.check_usual_context("DLPack");
    order_for_dlpack(tensor, stream);
    return export_capsule(tensor, request, target.has_value());
  });
}

PyObject* dlpack_device(PyObject* self, PyObject* /*unused*/) noexcept {
  const device::Device device = exchange::dlpack_device(tensor_of(self).device);
  const std::int64_t pair[] = {static_cast<std::int64_t>(device.type), device.id};
  return tuple_of(pair);
}

// Reading __dlpack__

namespace {

/// Takes the struct out of a capsule of its name.
template <class Managed>
Managed* taken_from(PyObject* capsule) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name_of<Managed>()));
  if (managed == nullptr) throw nb::python_error();
  if (PyCapsule_SetName(capsule, used_name_of<Managed>()) != 0) throw nb::python_error();
  return managed;
}

/// Consumes the capsule. Sets `*copied` if the producer says that the memory is a copy. Throws if the object isn't a
/// DLPack capsule.
Tensor take_capsule(PyObject* capsule, bool* copied) {
  const char* const name = PyCapsule_CheckExact(capsule) != 0 ? PyCapsule_GetName(capsule) : nullptr;
  const std::string_view called = name != nullptr ? name : "";
  if (called == kVersioned) return take(taken_from<DLManagedTensorVersioned>(capsule), copied);
  if (called == kLegacy) return take(taken_from<DLManagedTensor>(capsule), 0);
  throw InvalidDataError(std::string("__dlpack__() gave ") +
                         (called.starts_with("used_dltensor")
                              ? "a capsule that was already consumed; a capsule can be used only once"
                          : PyCapsule_CheckExact(capsule) != 0 ? "a capsule of another name than \"dltensor\" or "
                                                                 "\"dltensor_versioned\""
                                                               : "an object that is not a capsule"));
}

/// Caches the last type that lacked an attribute, because looking up a missing attribute costs more than an existing
/// one. Guarded by the GIL.
class Lacking {
 public:
  bool knows(PyObject* object) const noexcept {
    return Py_TYPE(object) == type_ && version_ != 0 && version_of(type_) == version_;
  }
  void note(PyObject* object) noexcept {
    type_ = Py_TYPE(object);
    version_ = version_of(type_);
  }

 private:
  PyTypeObject* type_ = nullptr;
  /// The type's version tag: it shows if the type was changed, or if another type is at the address now. 0: nothing is
  /// cached.
  unsigned version_ = 0;
};

/// Calls a method without arguments and returns its truth value, or false if the object has no such method.
bool says(PyObject* object, PyObject* method, Lacking* lacking) {
  if (lacking->knows(object)) return false;
  PyObject* const answer = call_method(object, method);
  if (answer == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
    PyErr_Clear();
    lacking->note(object);
    return false;
  }
  const nb::object held = nb::steal(answer);
  return truth(answer) == true;
}

/// Throws ExportError for a torch tensor whose negation or conjugation is lazy: a flag of the tensor, not yet applied
/// to its memory. torch's C functions ignore both flags (2.13), and its __dlpack__ ignores the negation.
void refuse_lazy_bits(PyObject* object, const Tensor& tensor) {
  static Lacking no_neg;
  static Lacking no_conj;
  const bool negated = says(object, names::is_neg(), &no_neg);
  const bool complex = tensor.type.code == array::TypeCode::kComplex;
  if (!negated && !(complex && says(object, names::is_conj(), &no_conj))) return;
  throw ExportError(negated ? "a tensor whose is_neg() is true can't be exported, because its memory has the values "
                              "before the negation; call resolve_neg() first"
                            : "a tensor whose is_conj() is true can't be exported, because its memory has the values "
                              "before the conjugation; call resolve_conj() first");
}

/// Throws ExportError for a torch tensor that requires gradients: autograd wouldn't see writes to its memory. torch's
/// __dlpack__ refuses such tensors, but its C functions export them.
void refuse_gradients(PyObject* object) {
  static Lacking none;
  if (none.knows(object)) return;
  const nb::object flag = attribute(object, names::requires_grad());
  if (!flag.is_valid()) return none.note(object);
  if (flag.ptr() != Py_True) return;
  throw ExportError(
      "a tensor whose requires_grad is true can't be exported, because autograd wouldn't track changes of its memory; "
      "call detach() first");
}

/// Throws the error of another library's C function that failed. Turns a RuntimeError into an ExportError with its
/// first line: torch raises RuntimeError, with a C++ stack trace, for tensors without memory of their own (sparse,
/// quantized, of functorch).
[[noreturn]] void fail_as_exporter(PyObject* object) {
  if (PyErr_Occurred() == nullptr) {
    throw ExportError("an object of type " + type_name_of(object) +
                      " can't be exported by DLPack: its C function failed without an error");
  }
  if (PyErr_ExceptionMatches(PyExc_RuntimeError) == 0) throw nb::python_error();
  const nb::python_error error;
  const nb::object text = checked(PyObject_Str(error.value().ptr()));
  const char* const utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), nullptr);
  if (utf8 == nullptr) throw nb::python_error();
  const std::string_view words(utf8);
  throw ExportError("an object of type " + type_name_of(object) +
                    " can't be exported by DLPack: " + std::string(words.substr(0, words.find('\n'))));
}

/// Returns the object's __dlpack_device__(), or nullopt if it has no such method.
std::optional<device::Device> device_from(PyObject* object) {
  PyObject* const pair = call_method_named(object, names::__dlpack_device__());
  if (pair == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
    PyErr_Clear();
    return std::nullopt;
  }
  const nb::object held = nb::steal(pair);
  const auto [type, id] = pair_in(pair, "the result of __dlpack_device__()");
  return device::Device{.type = static_cast<device::DeviceType>(type), .id = id};
}

}  // namespace

bool tensor_from_dlpack(PyObject* object, PyObject* dl_device, PyObject* copy, Tensor* out, bool* copied) {
  const nb::object held = optional_attribute(object, names::__dlpack__());
  if (!held.is_valid()) return false;
  const std::optional<device::Device> device = device_from(object);
  // A copy to the host is complete when the producer returns it, so no stream is passed.
  const bool to_host = given(dl_device) && pair_in(dl_device, "dl_device").first == 1;
  const RequestedStream stream = device && !to_host ? stream_for_dlpack(*device) : RequestedStream{nb::none()};
  static PyObject* const version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);

  PyObject* arguments[4] = {version};
  PyObject* keywords[4] = {names::max_version()};
  std::size_t n = 1;
  const auto add = [&](PyObject* name, PyObject* value) {
    if (!given(value)) return;
    keywords[n] = name;
    arguments[n++] = value;
  };
  add(names::stream(), stream.argument.ptr());
  add(names::dl_device(), dl_device);
  add(names::copy(), copy);
  const auto call = [&](std::size_t first, std::size_t count) {
    const nb::object keyword_names = checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (std::size_t i = 0; i < count; ++i) {
      Py_INCREF(keywords[first + i]);
      set_tuple_item(keyword_names.ptr(), static_cast<Py_ssize_t>(i), keywords[first + i]);
    }
    return PyObject_Vectorcall(held.ptr(), arguments + first, 0, count > 0 ? keyword_names.ptr() : nullptr);
  };
  PyObject* capsule = call(0, n);
  if (capsule == nullptr) {
    // A producer older than DLPack 1.0 only knows `stream`. It can't be told whether to copy, so this isn't tried if
    // `copy` or `dl_device` was given.
    const bool old = PyErr_ExceptionMatches(PyExc_TypeError) != 0 && !given(copy) && !given(dl_device);
    if (!old) throw nb::python_error();
    PyErr_Clear();
    capsule = call(1, n - 1);
    if (capsule == nullptr) throw nb::python_error();
  }
  const nb::object kept = nb::steal(capsule);
  bool flagged = false;
  *out = take_capsule(capsule, &flagged);
  if (flagged && truth(copy) == false) {
    throw ExportError("the producer copied the array, but copy=False forbids it");
  }
  // An array on another device than its producer is a copy, even if the producer doesn't flag it.
  if (copied != nullptr) *copied = flagged || (device && *device != exchange::dlpack_device(out->device));
  refuse_lazy_bits(object, *out);
  note_requested_stream(out, device, stream);
  return true;
}

// The C exchange API, both ways

namespace {

/// The most tables of other versions to follow in search of our version. A longer list is taken for a cycle.
constexpr int kOlderTables = 100;

/// Returns the exchange API of an object's type, in our major version, or null if it has none.
const DLPackExchangeAPI* api_of(PyTypeObject* type) {
  PyObject* capsule = type_attribute(type, names::__dlpack_c_exchange_api__());
  nb::object held;
  if (capsule == nullptr || PyCapsule_CheckExact(capsule) == 0) {
    // Skips getattr() for classes whose metaclass is plain `type`: it would first make an exception, which is slow.
    if (capsule == nullptr && Py_IS_TYPE(reinterpret_cast<PyObject*>(type), &PyType_Type)) return nullptr;
    held = optional_attribute(reinterpret_cast<PyObject*>(type), names::__dlpack_c_exchange_api__());
    capsule = held.ptr();
  }
  // Drafts of DLPack used an int with an address here. Such objects are imported by the Python protocol instead.
  if (capsule == nullptr || PyCapsule_IsValid(capsule, kApi) == 0) return nullptr;
  const auto* header = static_cast<const DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule, kApi));
  for (int left = kOlderTables; header != nullptr && header->version.major != DLPACK_MAJOR_VERSION; --left) {
    header = left > 0 ? header->prev_api : nullptr;
  }
  const auto* const api = reinterpret_cast<const DLPackExchangeAPI*>(header);
  return api != nullptr && api->managed_tensor_from_py_object_no_sync != nullptr ? api : nullptr;
}

/// Allocates memory for the type, shape and device of the prototype. Ignores its other fields.
Tensor empty_like(const DLTensor& prototype) {
  if (prototype.ndim < 0 || (prototype.ndim > 0 && prototype.shape == nullptr)) {
    throw InvalidDataError("a DLPack prototype without a shape");
  }
  const std::span<const std::int64_t> shape(prototype.shape, static_cast<std::size_t>(prototype.ndim));
  if (std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; })) {
    throw InvalidDataError("a DLPack prototype with a negative extent");
  }
  // Elements smaller than a byte take one byte each here. The exported flag IS_SUBBYTE_TYPE_PADDED says so.
  const array::ElementType type =
      exchange::element_type_of(prototype.dtype, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
  const device::Device device = {static_cast<device::DeviceType>(prototype.device.device_type),
                                 prototype.device.device_id};
  return empty_on(type, shape, device, nullptr);
}

/// Implements managed_tensor_allocator. `set_error` may be null: then the caller only gets the result -1.
int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
             void (*set_error)(void*, const char*, const char*)) noexcept {
  const auto fail = [&](const char* kind, const char* message) {
    if (set_error != nullptr) set_error(context, kind, message);
  };
  try {
    *out = nullptr;
    Tensor tensor = empty_like(*prototype);
    without_gil([&] { exchange::order_on_work_stream(tensor, drivers(), wait_for_event); });
    *out = exchange::export_dlpack(tensor, exchange::Order::kMade);
    return 0;
  } catch (const std::bad_alloc&) {
    fail("MemoryError", "crossdock has no memory for a tensor");
  } catch (const std::exception& error) {
    fail("BufferError", error.what());
  }
  return -1;
}

int from_object(void* object, DLManagedTensorVersioned** out) noexcept {
  try {
    *out = nullptr;
    if (!is_tensor(static_cast<PyObject*>(object))) {
      PyErr_SetString(PyExc_TypeError, "this table of C functions is for objects of type crossdock.Tensor");
      return -1;
    }
    const Tensor& self = tensor_of(static_cast<PyObject*>(object));
    if (is_complete(self) && self.native_context == nullptr) [[likely]] {
      *out = exchange::export_dlpack(self);
      return 0;
    }
    refuse_foreign_event(self);
    self.check_usual_context("DLPack");
    without_gil([&] { exchange::order_on_work_stream(self, drivers(), wait_for_event); });
    *out = exchange::export_dlpack(self, exchange::Order::kMade);
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

int to_object(DLManagedTensorVersioned* managed, void** out) noexcept {
  *out = guarded([&] {
    Tensor tensor = take(managed);
    // The producer's work is on our current_work_stream.
    if (tensor.device != device::Device{}) without_gil([&] { exchange::note_work_stream(&tensor, drivers()); });
    return new_tensor(std::move(tensor));
  });
  return *out != nullptr ? 0 : -1;
}

int current_stream(DLDeviceType type, int32_t id, void** out) noexcept {
  try {
    const device::Device device = {static_cast<device::DeviceType>(type), id};
    *out = without_gil([&] { return exchange::work_stream(device, drivers()); });
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

DLPackExchangeAPI exchange_api = {
    .header = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, .prev_api = nullptr},
    .managed_tensor_allocator = allocate,
    .managed_tensor_from_py_object_no_sync = from_object,
    .managed_tensor_to_py_object_no_sync = to_object,
    // Not implemented: it needs strides in elements whose storage outlives the call, and our strides are in bytes.
    .dltensor_from_py_object_no_sync = nullptr,
    .current_work_stream = current_stream,
};

}  // namespace

PyObject* dlpack_exchange_api() noexcept { return PyCapsule_New(&exchange_api, kApi, nullptr); }

bool tensor_from_exchange_api(PyObject* object, Tensor* out) {
  const DLPackExchangeAPI* const api = api_of(Py_TYPE(object));
  if (api == nullptr) return false;
  DLManagedTensorVersioned* managed = nullptr;
  refuse_gradients(object);
  if (api->managed_tensor_from_py_object_no_sync(object, &managed) != 0) fail_as_exporter(object);
  *out = take(managed);
  refuse_lazy_bits(object, *out);
  if (out->device.type != device::DeviceType::kCpu) note_stream(*api, out);
  return true;
}

}  // namespace crossdock::python
