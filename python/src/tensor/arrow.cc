#include "arrow.h"

#include <optional>
#include <string>

#include "../capsule.h"
#include "../column/column.h"
#include "../deferred.h"
#include "../gil.h"
#include "../producer.h"
#include "../wait.h"
#include "crossdock/core/error.h"
#include "exchange/memory_kind.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::RecordBatch;
using exchange::BoolPolicy;

/// Waits for a tensor in host memory, as Arrow arrays of the CPU have no event. Other tensors keep their event.
array::Tensor ready_if_host(const array::Tensor& tensor) {
  tensor.check_usual_context("Arrow");
  return tensor.device.type == device::DeviceType::kCpu ? on_host(tensor) : tensor;
}

/// Calls exchange::column_of_tensor(). Releases the GIL if the conversion reads every byte.
RecordBatch converted(const array::Tensor& tensor, BoolPolicy bools) {
  std::optional<GilRelease> release;
  if (bools == BoolPolicy::kConvert || tensor.mask != nullptr) release.emplace();
  return exchange::column_of_tensor(tensor, bools);
}

array::Tensor from_arrow(nb::handle object, bool bits) {
  drain_deferred();
  array::Tensor tensor;
  if (!tensor_from_arrow(object.ptr(), bits ? BoolPolicy::kConvert : BoolPolicy::kRefuse, true, &tensor)) {
    throw UnsupportedTypeError("an object of type " + type_name_of(object.ptr()) +
                               " is not an Arrow column: it has none of __arrow_c_array__, __arrow_c_device_array__, "
                               "__arrow_c_stream__, __arrow_c_device_stream__");
  }
  return tensor;
}

}  // namespace

bool tensor_from_arrow(PyObject* object, BoolPolicy bools, bool streams, array::Tensor* out) {
  std::optional<RecordBatch> batch = open_array(object);
  if (!batch && streams) batch = open_only_batch(object);
  if (!batch) return false;
  // The time of a conversion grows with the column, and a device may have to be opened, so both are done without the
  // GIL. The owners that are dropped take the GIL or defer their release by themselves (deferred.h).
  const bool kind_is_open = exchange::leaves_kind_open(batch->device.type);
  std::optional<GilRelease> release;
  if (bools == BoolPolicy::kConvert || kind_is_open) release.emplace();
  *out = exchange::tensor_of_column(*batch, bools);
  if (kind_is_open) exchange::resolve_memory_kind(out, out->data, drivers());
  return true;
}

void bind_tensor_arrow(nb::module_& module) {
  def_tensor_method(
      "to_arrow",
      [](const TensorObject& self, nb::handle bits) {
        drain_deferred();
        const BoolPolicy bools = truth(bits.ptr()).value_or(false) ? BoolPolicy::kConvert : BoolPolicy::kRefuse;
        return column_of(converted(ready_if_host(*self), bools));
      },
      nb::kw_only(), "bits"_a.none() = false,
      "Returns a Column of this tensor, without a copy.\n\n"
      "bits: True converts bool from bytes to bits, as Arrow stores it. With False, a bool tensor raises BufferError.");
  def_tensor_method(
      "__arrow_c_schema__",
      [](const TensorObject& self) {
        return schema_capsule(*exchange::schema_of_tensor(*self, BoolPolicy::kRefuse), Form::kColumn);
      },
      "Returns the Arrow type: the type of the elements for one dimension, arrow.fixed_shape_tensor for more.");
  def_tensor_method(
      "__arrow_c_array__",
      [](const TensorObject& self, nb::handle requested) {
        drain_deferred();
        return array_capsules(exchange::column_of_tensor(on_host(*self), BoolPolicy::kRefuse), requested,
                              Form::kColumn);
      },
      "requested_schema"_a.none() = nb::none(),
      "Returns a pair of capsules of host memory; device memory is copied. Waits for pending work.\n\n"
      "requested_schema: as for RecordBatch.__arrow_c_array__, the type of this column.");
  def_tensor_method(
      "__arrow_c_device_array__",
      [](const TensorObject& self, nb::handle requested, const nb::kwargs& keywords) {
        drain_deferred();
        refuse_keywords("Tensor.__arrow_c_device_array__", keywords);
        return device_array_capsules(exchange::column_of_tensor(ready_if_host(*self), BoolPolicy::kRefuse), requested,
                                     Form::kColumn);
      },
      "requested_schema"_a.none() = nb::none(), "keywords"_a,
      "Returns a pair of capsules, with the device of the memory and the event.");

  module.def(
      "from_arrow", [](nb::handle obj, bool bits) { return checked(new_tensor(from_arrow(obj, bits))); }, "obj"_a,
      nb::kw_only(), "bits"_a = false,
      "Returns a read-only Tensor of an Arrow column without nulls, without a copy.\n\n"
      "obj: an object with an Arrow method for arrays or for streams.\n"
      "bits: True converts a bool column from bits, as Arrow stores it, to bytes in new memory. With False, a bool "
      "column raises BufferError.");
}

}  // namespace crossdock::python
