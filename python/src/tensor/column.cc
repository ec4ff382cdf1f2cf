#include "column.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "../capsule.h"
#include "../deferred.h"
#include "../gil.h"
#include "../producer.h"
#include "../wait.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/memory_kind.h"
#include "device.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::RecordBatch;
using exchange::BoolPolicy;

/// crossdock.Column: a batch of one column.
struct PyColumn {
  RecordBatch batch;
};

nb::tuple cpu_pair(const RecordBatch& column) {
  return nb::make_tuple(column_schema_capsule(*column.schema), column_capsule(column));
}

nb::tuple device_pair(const RecordBatch& column) {
  return nb::make_tuple(column_schema_capsule(*column.schema), device_column_capsule(column));
}

/// Checks the arguments of the Arrow methods: accepts a requested schema, which is ignored, and, if `keywords_allowed`,
/// unknown keywords whose value is None. Throws nb::python_error for others.
void check_arguments(const char* method, bool keywords_allowed, PyObject* const* arguments, Py_ssize_t positional,
                     PyObject* names) {
  if (positional > 1) {
    PyErr_Format(PyExc_TypeError, "%s() takes a requested schema and keywords", method);
    throw nb::python_error();
  }
  const Py_ssize_t n = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    if (PyUnicode_CompareWithASCIIString(name, "requested_schema") == 0) continue;
    if (keywords_allowed && arguments[positional + i] == Py_None) continue;
    PyErr_Format(keywords_allowed ? PyExc_NotImplementedError : PyExc_TypeError,
                 "%s: the keyword %R is not known here; leave it out or give None", method, name);
    throw nb::python_error();
  }
}

/// Returns the tensor in host memory, ready: waits for it or copies it. The CPU methods of Arrow need host memory.
array::Tensor on_host(const array::Tensor& tensor) {
  if (tensor.device.type == device::DeviceType::kCpu) return waited_for(tensor);
  return copy_to(tensor, device::Device{}, nullptr);
}

/// Waits for a tensor in host memory, as Arrow arrays of the CPU have no event. Other tensors keep their event.
array::Tensor ready_if_host(const array::Tensor& tensor) {
  record_without_lock(tensor.event);
  return tensor.device.type == device::DeviceType::kCpu ? waited_for(tensor) : tensor;
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
    throw UnsupportedTypeError("an object of type " + std::string(Py_TYPE(object.ptr())->tp_name) +
                               " is no Arrow column: it has none of __arrow_c_array__, __arrow_c_device_array__, "
                               "__arrow_c_stream__, __arrow_c_device_stream__");
  }
  return tensor;
}

}  // namespace

bool tensor_from_arrow(PyObject* object, BoolPolicy bools, bool streams, array::Tensor* out) {
  std::optional<RecordBatch> batch = open_array(object);
  if (!batch && streams) batch = open_only_batch(object);
  if (!batch) return false;
  // The time of a conversion grows with the column, so it runs without the GIL. The owners that it drops take the GIL
  // or defer their release by themselves (deferred.h).
  const device::DriverRegistry& all = drivers();
  std::optional<GilRelease> release;
  if (bools == BoolPolicy::kConvert) release.emplace();
  *out = exchange::tensor_of_column(*batch, bools);
  if (exchange::leaves_kind_open(out->device.type)) exchange::resolve_memory_kind(out, all);
  return true;
}

PyObject* arrow_schema(PyObject* self, PyObject* /*unused*/) noexcept {
  return guarded([&] {
    return column_schema_capsule(*exchange::schema_of_tensor(tensor_of(self), BoolPolicy::kRefuse)).release().ptr();
  });
}

PyObject* arrow_array(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept {
  return guarded([&] {
    check_arguments("Tensor.__arrow_c_array__", false, arguments, positional, names);
    drain_deferred();
    return cpu_pair(exchange::column_of_tensor(on_host(tensor_of(self)), BoolPolicy::kRefuse)).release().ptr();
  });
}

PyObject* arrow_device_array(PyObject* self, PyObject* const* arguments, Py_ssize_t positional,
                             PyObject* names) noexcept {
  return guarded([&] {
    check_arguments("Tensor.__arrow_c_device_array__", true, arguments, positional, names);
    drain_deferred();
    const array::Tensor& tensor = tensor_of(self);
    return device_pair(exchange::column_of_tensor(ready_if_host(tensor), BoolPolicy::kRefuse)).release().ptr();
  });
}

PyObject* to_arrow(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept {
  return guarded([&]() -> PyObject* {
    bool bits = false;
    const Py_ssize_t n = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    if (positional > 0) throw nb::type_error("to_arrow() takes keyword arguments only");
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "bits") != 0) {
        PyErr_Format(PyExc_TypeError, "to_arrow() got an unexpected keyword argument '%U'", PyTuple_GET_ITEM(names, i));
        return nullptr;
      }
      const int value = PyObject_IsTrue(arguments[i]);
      if (value < 0) return nullptr;
      bits = value != 0;
    }
    drain_deferred();
    return nb::cast(
               PyColumn{converted(ready_if_host(tensor_of(self)), bits ? BoolPolicy::kConvert : BoolPolicy::kRefuse)})
        .release()
        .ptr();
  });
}

void bind_column(nb::module_& module) {
  nb::class_<PyColumn>(module, "Column", "One Arrow column, for anything that takes __arrow_c_array__. Immutable.")
      .def("__len__", [](const PyColumn& self) { return self.batch.num_rows; })
      .def_prop_ro("device", [](const PyColumn& self) { return self.batch.device; })
      .def("__arrow_c_schema__", [](const PyColumn& self) { return column_schema_capsule(*self.batch.schema); })
      .def(
          "__arrow_c_array__",
          [](const PyColumn& self, nb::handle /*requested_schema*/) {
            drain_deferred();
            return cpu_pair(self.batch);
          },
          "requested_schema"_a.none() = nb::none())
      .def(
          "__arrow_c_device_array__",
          [](const PyColumn& self, nb::handle /*requested_schema*/, const nb::kwargs& keywords) {
            drain_deferred();
            refuse_keywords("Column.__arrow_c_device_array__", keywords);
            return device_pair(self.batch);
          },
          "requested_schema"_a.none() = nb::none(), "keywords"_a)
      .def("__repr__", [](const PyColumn& self) {
        return "<crossdock.Column: " + std::to_string(self.batch.num_rows) + " rows, " +
               array::type_name(self.batch.schema->fields()[0].type) + ">";
      });

  module.def(
      "from_arrow", [](nb::handle obj, bool bits) { return checked(new_tensor(from_arrow(obj, bits))); }, "obj"_a,
      nb::kw_only(), "bits"_a = false,
      "A Tensor of an Arrow column without nulls, read-only, without a copy.\n\n"
      "bits: bool columns, which are bits in Arrow, are converted into new memory, a byte for each; without it they "
      "are "
      "refused.");
}

}  // namespace crossdock::python
