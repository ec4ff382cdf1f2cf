#include "usm_array.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../deferred.h"
#include "../gil.h"
#include "../offload/selector.h"
#include "array_interface.h"
#include "buffer_view.h"
#include "c_descriptor.h"
#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/device/registry.h"
#include "crossdock/device/sycl.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/exchange/usm_array.h"
#include "dpnp_array.h"
#include "external_memory.h"
#include "names.h"
#include "queue.h"
#include "sycl_objects.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::Tensor;
using device::Queue;

constexpr const char* kUsmArrayName = "__sycl_usm_array_interface__";
[[noreturn]] void fail(const std::string& what) { throw InvalidDataError(std::string(kUsmArrayName) + ": " + what); }

/// Returns true if an extent is 0. Works for extents that weren't checked yet.
bool has_no_elements(const Tensor& tensor) { return std::ranges::find(tensor.shape(), 0) != tensor.shape().end(); }

device::Device device_named(std::string_view filter) {
  try {
    return device::select_device(sycl(), filter);
  } catch (const NotFoundError& error) {
    throw NotFoundError(std::string(kUsmArrayName) + ": its syclobj: " + error.what());
  } catch (const InvalidArgumentError& error) {
    fail("its syclobj is not a device: " + std::string(error.what()));
  }
}

/// Returns the queue that a `syclobj` stands for. Throws if it stands for no queue and no context.
Queue of_syclobj(nb::handle object, const void* pointer) {
  if (const auto queue = sycl_queue_in(object, pointer)) return *queue;
  if (PyUnicode_Check(object.ptr()) != 0) return drivers().default_queue(device_named(utf8_of(object)));
  fail("its syclobj is of type " + type_name_of(object.ptr()) +
       "; it must be a filter string, a SyclContext, a SyclQueue, a capsule of either, or an object with "
       "_get_capsule()");
}

std::int64_t times(std::int64_t elements, std::int64_t itemsize, const char* what) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, itemsize, &bytes)) fail(std::string("its ") + what + " is beyond 64 bits");
  return bytes;
}

/// Sets data, read_only and owner of `*tensor` from the buffer of an object whose dictionary has no entry `data`. The
/// first element is `offset` bytes from the start of the buffer. The tensor holds the buffer until it is dropped.
void read_buffer(PyObject* object, std::int64_t offset, Tensor* tensor) {
  if (object == nullptr || PyObject_CheckBuffer(object) == 0) {
    fail("its entry \"data\" is missing, and the owner has no buffer; add the address and the read-only flag as data");
  }
  auto buffer = std::make_shared<PyBufferView>();
  if (PyObject_GetBuffer(object, &buffer->view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const Py_buffer& view = buffer->view;
  const array::ByteRange range = array::byte_range(*tensor, kUsmArrayName);
  if (range.highest != 0 && !lies_in(*tensor, offset, view.len, kUsmArrayName)) {
    fail("its buffer of " + std::to_string(view.len) + " bytes doesn't hold all elements, which are bytes " +
         std::to_string(range.lowest) + " to " + std::to_string(range.highest) + " from byte " +
         std::to_string(offset) + " on; correct its shape, strides or offset");
  }
  tensor->data = view.buf;
  tensor->read_only = view.readonly != 0;
  tensor->owner = std::move(buffer);
}

/// Imports a dictionary. `object`: the owner of the memory, or None. `shown`: the dictionary is the object's own
/// attribute.
Tensor read(nb::handle interface, nb::handle object, bool shown = false) {
  if (PyDict_Check(interface.ptr()) == 0) throw_type_error(interface, "__sycl_usm_array_interface__ must be a dict");
  const nb::dict dictionary = nb::borrow<nb::dict>(interface);
  const nb::object version = entry(interface, "version");
  if (version.is_none()) fail("its entry \"version\" is missing");
  const std::int64_t number = integer_in(version, kUsmArrayName, "version");
  Tensor tensor;
  const std::optional<array::ElementType> known = shown ? std::nullopt : type_in_dtype(interface);
  const bool has_data = describe_from(dictionary, kUsmArrayName, &tensor, Units::kElements, known);
  if (!has_data && PyDict_Contains(dictionary.ptr(), nb::str("data").ptr()) != 0) {
    fail(
        "its data must be a pair of address and read-only flag; to use the owner's buffer instead, leave the entry "
        "out");
  }
  const nb::object offset = entry(interface, "offset");
  const std::int64_t shift =
      offset.is_none() ? 0 : times(integer_in(offset, kUsmArrayName, "offset"), tensor.type.itemsize(), "offset");
  if (!object.is_none()) tensor.owner = owner_of(object.ptr());
  if (has_data) {
    // dpctl's memory objects set the read-only flag on writable memory, so the flag is ignored for them.
    if (shown && c_class_of(object, "dpctl.memory._memory._Memory") != nullptr) tensor.read_only = false;
  } else {
    read_buffer(object.is_none() ? nullptr : object.ptr(), shift, &tensor);
  }
  // In an array without elements, the pointer only tells the kind of memory, and the offset might lead out of it.
  if (tensor.data != nullptr && !has_no_elements(tensor)) tensor.data = moved_by(tensor.data, shift);
  const nb::object syclobj = entry(interface, "syclobj");
  if (syclobj.is_none()) fail("its entry \"syclobj\" is missing");
  const bool in_capsule = PyCapsule_CheckExact(syclobj.ptr()) != 0;
  const Queue queue = [&] {
    try {
      return in_capsule ? queue_of_capsule(syclobj, tensor.data) : of_syclobj(syclobj, tensor.data);
    } catch (const InvalidArgumentError& error) {  // the pointer isn't bound to that context
      fail(error.what());
    }
  }();
  exchange::import_usm_array(&tensor, number, queue, drivers());
  if (!has_data && tensor.kind == device::MemoryKind::kDevice && tensor.data != nullptr) {
    fail("its data is missing, but memory of kind \"device\" can't have a buffer");
  }
  if (in_capsule) use_up(syclobj);  // after a failed import the capsule stays usable
  return tensor;
}

/// Makes a Tensor of memory that `deleter` frees.
nb::object adopt(nb::handle desc, nb::handle owner, nb::handle deleter) {
  const nb::object data = PyDict_Check(desc.ptr()) != 0 ? entry(desc, "data") : nb::none();
  if (PyTuple_Check(data.ptr()) == 0 || tuple_size(data.ptr()) == 0) {
    fail("a deleter needs the entry \"data\" with the address that it frees");
  }
  ExternalMemory memory(deleter, tuple_item(data.ptr(), 0));
  Tensor tensor = read(desc, owner);
  tensor.owner = memory.owner(std::move(tensor.owner));
  nb::object made = checked(new_tensor(std::move(tensor)));
  memory.arm();
  return made;
}

/// Returns the entry `syclobj` in the form that the caller asked for.
nb::object syclobj_of(const Queue& queue, PyObject* form) {
  if (!given(form) || PyUnicode_CompareWithASCIIString(form, "queue") == 0) return queue_object(queue);
  if (PyUnicode_CompareWithASCIIString(form, "context") == 0) return sycl_context_capsule(queue);
  if (PyUnicode_CompareWithASCIIString(form, "filter") == 0) {
    if (!sycl().same_context(queue, drivers().default_queue(queue.device()))) {
      throw ExportError(
          "a filter string stands for its device's default context, but the memory is in another context");
    }
    return nb::str(sycl_filter_of(queue.device()).c_str());
  }
  throw_python(PyExc_ValueError, "syclobj must be \"queue\", \"context\" or \"filter\", not %R", form);
}

/// Returns an address for arrays without elements, in memory of this kind and of the queue's context: dpctl accepts no
/// null pointer. Intentional leak: one byte is allocated per kind and context, and never freed.
void* no_elements(const Queue& queue, device::MemoryKind kind) {
  static std::vector<Tensor>* const made = new std::vector<Tensor>;  // guarded by the GIL
  for (const Tensor& one : *made) {
    if (one.kind == kind && (*one.queue == queue || sycl().same_context(*one.queue, queue))) return one.data;
  }
  const std::int64_t shape[] = {1};
  made->push_back(empty_on(array::parse_element_type("uint8"), shape, queue.device(), &queue, kind));
  return made->back().data;
}

nb::object shown(const Tensor& tensor, PyObject* form) {
  // Without the GIL: the call may wait for work that needs it.
  const Queue queue = without_gil([&] { return exchange::export_usm_array(tensor, drivers()); });
  nb::object syclobj = syclobj_of(queue, form);
  // A consumer is ordered after the tensor's work only if it gets an in-order queue itself. Otherwise wait here.
  const bool ordered = queue_or_null(syclobj) != nullptr && sycl().queue_info(queue).in_order;
  if (!ordered && !tensor.ready()) wait_for(tensor);
  nb::dict interface = interface_of(tensor, exchange::kUsmArrayVersion, Units::kElements);
  interface["offset"] = 0;
  if (tensor.data == nullptr) {
    interface["data"] =
        nb::make_tuple(reinterpret_cast<std::uintptr_t>(no_elements(queue, tensor.kind)), tensor.read_only);
  }
  interface["syclobj"] = std::move(syclobj);
  return interface;
}

}  // namespace

bool tensor_from_usm_array(PyObject* object, Tensor* out) {
  std::optional<DpnpArray> direct = dpnp_array(object);
  // Arrays without elements are imported by the dictionary, which has a pointer to the memory and so tells its kind.
  if (direct && direct->proven && !has_no_elements(direct->tensor)) {
    *out = std::move(direct->tensor);
    exchange::import_usm_array(out, exchange::kUsmArrayVersion, sycl().wrap_queue(device::NativeQueue(direct->queue)),
                               drivers());
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
                   kUsmArrayName);
      return nullptr;
    }
    return shown(tensor, nullptr).release().ptr();
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
      "Returns a Tensor of a dictionary of the SYCL USM array interface.\n\n"
      "desc: its entry dtype (\"bfloat16\") replaces typestr, for types that typestr can't express.\n"
      "owner: an object that is kept while the memory is in use. If the dictionary has no data, the owner's buffer "
      "is the memory. Without an owner, the caller must keep the memory alive.\n"
      "deleter: a function that takes the address in data and frees it. It is called once, when the memory is no "
      "longer used, before the owner is released. It isn't called if this call raises, or when the interpreter ends.");
  def_tensor_method(
      "sycl_usm_array_interface",
      [](const TensorObject& self, const std::optional<nb::str>& syclobj) {
        return shown(*self, syclobj ? syclobj->ptr() : nullptr);
      },
      "syclobj"_a.none() = "queue",
      "Returns the dictionary of __sycl_usm_array_interface__ with another syclobj.\n\n"
      "syclobj: \"queue\", as the attribute has it; \"context\", a capsule for one consumer; or \"filter\", the filter "
      "string of a device if the memory is of its default context.\n\n"
      "Raises `ExportError` for memory that isn't of a SYCL device, and `ValueError` for another syclobj.");
}

}  // namespace crossdock::python
