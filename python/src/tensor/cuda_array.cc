#include "crossdock/exchange/cuda_array.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "../deferred.h"
#include "../gil.h"
#include "array_interface.h"
#include "crossdock/core/error.h"
#include "cuda_array.h"
#include "names.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::Tensor;

constexpr const char* kCudaArrayName = "__cuda_array_interface__";
constexpr const char* kSwitch = "CROSSDOCK_CUDA_ARRAY_INTERFACE_SYNC";

/// The global switch: whether streams of imported arrays are respected if a call doesn't say. -1: the environment
/// variable wasn't read yet.
std::atomic<int> heeded{-1};

bool streams_are_heeded() noexcept {
  int value = heeded.load();
  if (value < 0) {
    const char* const text = std::getenv(kSwitch);
    value = text != nullptr && std::string_view(text) == "0" ? 0 : 1;
    heeded.store(value);
  }
  return value != 0;
}

}  // namespace

Tensor tensor_from_cuda_interface(nb::handle interface, nb::handle owner, std::optional<bool> sync,
                                  const std::optional<array::ElementType>& known) {
  if (PyDict_Check(interface.ptr()) == 0) throw_type_error(interface, "__cuda_array_interface__ must be a dict");
  const nb::dict dictionary = nb::borrow<nb::dict>(interface);
  Tensor tensor;
  if (!describe_from(dictionary, kCudaArrayName, &tensor, Units::kBytes, known)) {
    throw InvalidDataError(std::string(kCudaArrayName) +
                           ": its entry \"data\" is missing, or is not a pair of address and flag");
  }
  const nb::object version = entry(interface, "version");  // raises what a comparison of keys raises
  if (version.is_none() && PyDict_GetItemString(interface.ptr(), "version") == nullptr) {
    throw InvalidDataError(std::string(kCudaArrayName) + ": its entry \"version\" is missing");
  }
  const std::int64_t number = integer_in(version, kCudaArrayName, "version");
  if (!owner.is_none()) tensor.owner = owner_of(owner.ptr());
  // Version 0 of the interface has no masks, and its consumers don't look for one.
  if (number == 0 && !entry(interface, "mask").is_none() &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "__cuda_array_interface__: version 0 has no masks, so the entry \"mask\" is ignored and all "
                   "elements count as valid; a producer with a mask must have version 1 or later",
                   1) != 0) {
    throw nb::python_error();
  }
  if (number > 0) {
    read_mask(dictionary, kCudaArrayName, &tensor, [&](PyObject* mask, Tensor* out) {
      if (tensor_from_cuda_array(mask, sync, out)) return;
      throw_python(PyExc_TypeError, "%s: its mask has no __cuda_array_interface__", kCudaArrayName);
    });
  }
  // The entry "stream" has no meaning before version 3.
  const nb::object stream = number >= 3 ? entry(interface, "stream") : nb::none();
  exchange::CudaStream given;
  if (!stream.is_none()) given = integer_in(stream, kCudaArrayName, "stream");
  const GilRelease release;
  exchange::import_cuda_array(&tensor, number, given, sync.value_or(streams_are_heeded()), drivers());
  return tensor;
}

bool tensor_from_cuda_array(PyObject* object, std::optional<bool> sync, Tensor* out) {
  const nb::object held = optional_attribute(object, names::__cuda_array_interface__());
  if (!held.is_valid()) return false;
  *out = tensor_from_cuda_interface(held, object, sync);
  return true;
}

PyObject* cuda_array_interface(PyObject* self, void* /*unused*/) noexcept {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    const bool has_typestr = !array::typestr_of(tensor.type).empty();
    if (!exchange::is_cuda(tensor.device.type) || !has_typestr) {
      PyErr_Format(PyExc_AttributeError, "a tensor of %s in memory of %s has no __cuda_array_interface__",
                   array::element_type_name(tensor.type).c_str(), device::to_string(tensor.device).c_str());
      return nullptr;
    }
    // The exported stream outlives this object: it is the tensor's own queue, or the device's default queue, which is
    // never destroyed.
    Tensor shown = tensor;
    const exchange::CudaStream stream = without_gil([&] { return exchange::export_cuda_array(&shown, drivers()); });
    nb::dict interface = interface_of(shown, exchange::kCudaArrayVersion);
    interface["stream"] = stream ? nb::int_(*stream) : nb::object(nb::none());
    interface["mask"] = tensor.mask ? checked(new_tensor(Tensor(*tensor.mask))) : nb::none();
    return interface.release().ptr();
  });
}

void bind_cuda_array(nb::module_& module) {
  module.def(
      "from_cuda_array_interface",
      [](nb::handle desc, nb::handle owner, std::optional<bool> sync) {
        drain_deferred();
        return checked(new_tensor(tensor_from_cuda_interface(desc, owner, sync, type_in_dtype(desc))));
      },
      "desc"_a, "owner"_a.none() = nb::none(), "sync"_a.none() = nb::none(),
      "Returns a Tensor of a dictionary of the CUDA Array Interface.\n\n"
      "desc: its entry dtype (\"bfloat16\") replaces typestr, for types that typestr can't express.\n"
      "owner: an object that is kept while the memory is in use. Without one, the caller must keep the memory alive.\n"
      "sync: whether the result is ordered after the stream in the dictionary. False: the caller is responsible for "
      "the order. None: the value of set_cuda_array_interface_sync().\n\n"
      "Raises `TypeError` if `desc` or an entry is of a wrong type, `InvalidDataError` if an entry is missing or "
      "wrong, and `InvalidArgumentError` for an unknown typestr.");
  module.def(
      "set_cuda_array_interface_sync", [](bool enabled) { heeded.store(enabled ? 1 : 0); }, "enabled"_a,
      "Sets whether arrays that are imported by __cuda_array_interface__ are ordered after their stream, for calls "
      "without `sync`.\n\n"
      "enabled: False: the program is responsible for the order. At the start it is True, unless the environment has "
      "CROSSDOCK_CUDA_ARRAY_INTERFACE_SYNC=0.\n\n"
      "Raises `TypeError` unless `enabled` is True or False.");
}

}  // namespace crossdock::python
