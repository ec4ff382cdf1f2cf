#include "types.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <optional>
#include <string>

#include "arena.h"
#include "batch.h"
#include "capsule.h"
#include "column/column.h"
#include "core/amounts.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/batch.h"
#include "deferred.h"
#include "exchange/contexts.h"
#include "gil.h"
#include "instance.h"
#include "offload/selector.h"
#include "producer.h"
#include "tensor/queue.h"
#include "tensor/transfer.h"
#include "text.h"
#include "wait.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

nb::list column_names(const PySchema& self) {
  nb::list result;
  for (const array::Field& field : self.schema->fields()) result.append(displayed(field.name));
  return result;
}

/// Returns the names and types of the first `count` top-level fields, as pairs.
nb::list first_fields(const PySchema& self, std::size_t count) {
  nb::list result;
  for (const array::Field& field : self.schema->fields()) {
    if (result.size() == count) break;
    std::string type = array::type_name(field.type);
    if (field.dictionary) type = "dictionary[" + type + " -> " + array::type_name(field.dictionary->type) + "]";
    result.append(nb::make_tuple(displayed(field.name), displayed(type)));
  }
  return result;
}

/// Returns true if nothing is pending on the memory. False if work on it has failed.
bool batch_is_ready(const PyRecordBatch& self) {
  try {
    return self.batch.ready();
  } catch (const Error&) {
    return false;
  }
}

/// Returns the bytes of a str (as UTF-8) or bytes object.
std::string bytes_of(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) return nb::cast<std::string>(object);
  if (nb::isinstance<nb::bytes>(object)) {
    const auto bytes = nb::borrow<nb::bytes>(object);
    return {bytes.c_str(), bytes.size()};
  }
  throw nb::type_error("custom_metadata must be a mapping of str or bytes to str or bytes");
}

array::RecordBatch batch_of(nb::handle source, const std::optional<nb::mapping>& custom_metadata) {
  array::RecordBatch batch = open_batch(source);
  if (!custom_metadata) return batch;
  batch.custom_metadata.clear();
  for (nb::handle item : custom_metadata->items()) {
    batch.custom_metadata.emplace_back(bytes_of(item[0]), bytes_of(item[1]));
  }
  return batch;
}

PyRecordBatch to_arena(const array::RecordBatch& batch, const std::shared_ptr<device::DeviceArena>& arena,
                       nb::handle queue) {
  const device::Queue on = queue_for(*arena, queue);
  const bool waits = queue.is_none();
  const GilRelease release;
  // Memory of another device comes by way of the host.
  const bool there = batch.device == arena->context()->device() && batch.native_context == nullptr;
  PyRecordBatch made{
      exchange::copy(there ? batch : exchange::on_host(batch, drivers(), wait_for_event, log_here), arena, on)};
  if (waits && !there) exchange::wait_for(made.batch, drivers(), wait_for_event);
  return made;
}

PyRecordBatch to_device(const PyRecordBatch& self, nb::handle device, nb::handle queue) {
  drain_deferred();
  if (const auto arena = device_arena_or_null(device)) return to_arena(self.batch, arena, queue);
  const device::Device target = select_device(device);
  const std::optional<device::Queue> named = queue_in(queue);
  if (target == self.batch.device) {
    if (!named) return self;
    require_queue_of(*named, target);
    if (!exchange::in_another_context(self.batch, *named, drivers())) {
      order_on(self.batch, *named);
      return self;
    }
  }
  return {copy_to(self.batch, target, named ? &*named : nullptr)};
}

void wait_until_ready(PyRecordBatch& self) {
  drain_deferred();
  if (self.batch.host_readable()) return;  // other threads may read elements, which must stay where they are
  array::RecordBatch waited = self.batch;  // a copy, because other threads may use the batch meanwhile
  wait_for(waited);
  exchange::mark_ready(&waited);
  // The batch stays on its queue: work that its owner puts there later is pending on it, too.
  waited.queue = self.batch.queue;
  waited.context = self.batch.context;
  // Another thread may have waited and stored its result meanwhile. Both results are right.
  self.batch = std::move(waited);
}

std::string summary(const PyRecordBatch& self) {
  const array::RecordBatch& batch = self.batch;
  return "<crossdock.RecordBatch: " + counted(batch.num_rows, "row") + ", " +
         counted(batch.schema->fields().size(), "column") + ", " + counted(batch.nbytes(), "byte") +
         (batch.device.type == device::DeviceType::kCpu ? "" : " on " + device::to_string(batch.device)) + ">";
}

/// Sets mp_subscript instead of a method __getitem__, which would make the object look like a sequence.
PyType_Slot batch_slots[] = {{Py_mp_subscript, reinterpret_cast<void*>(batch_item)}, {0, nullptr}};

}  // namespace

nb::dict dict_of(const array::Metadata& metadata) {
  nb::dict result;
  for (const auto& [key, value] : metadata) {
    result[nb::bytes(key.data(), key.size())] = nb::bytes(value.data(), value.size());
  }
  return result;
}

void add_methods_of_columns(nb::handle type) {
  for (const char* module : {"crossdock._columns", "crossdock._frames"}) {
    for (nb::handle method : nb::module_::import_(module).attr("METHODS")) {
      nb::setattr(type, method.attr("__name__"), method);
    }
  }
}

nb::object html_of(nb::handle object, const char* function) {
  return nb::module_::import_("crossdock._html").attr(function)(object);
}

void bind_types(nb::module_& module) {
  nb::class_<PySchema>(module, "Schema", "The fields of the batches of a stream, in order. Immutable.")
      .def_prop_ro("names", column_names, "The names of the top-level fields.")
      .def("__len__", [](const PySchema& self) { return self.schema->fields().size(); })
      .def(
          "__eq__",
          [](const PySchema& self, nb::handle other) -> nb::object {
            PySchema* that = nullptr;
            if (!nb::try_cast(other, that) || that == nullptr) return nb::borrow(Py_NotImplemented);
            return nb::bool_(*self.schema == *that->schema);
          },
          "other"_a.none())
      .def("__hash__", [](const PySchema& self) { return nb::hash(displayed(self.schema->to_string())); })
      .def("__str__", [](const PySchema& self) { return displayed(self.schema->to_string()); })
      .def("__repr__",
           [](const PySchema& self) {
             return nb::str("<crossdock.Schema: {} fields>\n{}")
                 .format(self.schema->fields().size(), displayed(self.schema->to_string()));
           })
      .def("_first_fields", first_fields, "count"_a)
      .def("_repr_html_", [](nb::handle self) { return html_of(self, "of_schema"); })
      .def("__arrow_c_schema__", [](const PySchema& self) { return schema_capsule(*self.schema); });

  nb::class_<PyRecordBatch>(module, "RecordBatch",
                            "Columns of equal length. The memory is read-only, because it is shared with its producer. "
                            "It lives as long as this object and everything that was imported from it.",
                            nb::type_slots(batch_slots))
      .def(
          "__init__",
          [](PyRecordBatch* self, nb::handle source, const std::optional<nb::mapping>& custom_metadata) {
            new (self) PyRecordBatch{batch_of(source, custom_metadata)};
          },
          "source"_a, nb::kw_only(), "custom_metadata"_a.none() = nb::none(),
          "Imports the columns of an object with __arrow_c_array__ or __arrow_c_device_array__, or of a stream of one "
          "batch, without a copy. The columns may be on any device.\n\n"
          "source: such an object.\n"
          "custom_metadata: the metadata of the message in which the batch is sent or written, str or bytes. None: the "
          "metadata of the source, if it is a RecordBatch.\n\n"
          "Raises `UnsupportedTypeError` for an object without Arrow data, `ExportError` for a stream of more than "
          "one batch, `InvalidDataError` for data that breaks Arrow's rules, and the errors of the source.")
      .def_prop_ro(
          "schema", [](const PyRecordBatch& self) { return PySchema{self.batch.schema}; },
          "The fields of the columns, in their order.")
      .def_prop_ro(
          "num_rows", [](const PyRecordBatch& self) { return self.batch.num_rows; }, "The length of each column.")
      .def_prop_ro(
          "num_columns", [](const PyRecordBatch& self) { return self.batch.schema->fields().size(); },
          "The number of columns.")
      .def_prop_ro(
          "nbytes", [](const PyRecordBatch& self) { return self.batch.nbytes(); },
          "The sum of the sizes of the buffers. Not counted are dictionaries, and sizes that are only known in the "
          "memory of a device: the bytes of text and views that another library made there.")
      .def_prop_ro(
          "device", [](const PyRecordBatch& self) { return self.batch.device; }, "The device of the memory.")
      .def("to", to_device, "device"_a, nb::kw_only(), "queue"_a.none() = nb::none(),
           "Returns the columns in memory of a device: this batch if it is there, else a copy.\n\n"
           "device: the device (\"cpu\", \"cuda:0\"). With an Arena of a device, the result is a copy in its memory.\n"
           "queue: the queue on which the copy runs. The copy may still be under way when this returns; consumers of "
           "the result are ordered after it. Without a queue, a copy from or to the host is complete when this "
           "returns.\n\n"
           "Raises `InvalidArgumentError` for a text that names no device and for a queue of another device, "
           "`NotFoundError` or `UnsupportedError` if there is no such device, and `ResourceError` if there isn't "
           "enough memory.")
      .def("wait", wait_until_ready, "Waits for the pending work on the columns. Raises the error of failed work.")
      .def_prop_ro(
          "custom_metadata", [](const PyRecordBatch& self) { return dict_of(self.batch.custom_metadata); },
          "The custom metadata of the message in which the batch was received or will be sent. The schema has its own "
          "metadata.")
      .def("__len__", [](const PyRecordBatch& self) { return self.batch.num_rows; })
      .def("__repr__",
           [](nb::handle self) {
             const std::string text = summary(initialized<PyRecordBatch>(self));
             return nb::module_::import_("crossdock._values").attr("batch_text")(self, text);
           })
      .def(
          "__iter__",
          [](nb::handle self) {
            nb::list columns;
            const std::size_t n = initialized<PyRecordBatch>(self).batch.schema->fields().size();
            for (std::size_t i = 0; i < n; ++i) columns.append(nb::object(self[nb::int_(i)]));
            return nb::iter(columns);
          },
          "Iterates over the columns.")
      .def(
          "to_pylist", [](nb::handle self) { return nb::module_::import_("crossdock._values").attr("rows_of")(self); },
          "Returns the rows as dicts from names to Python objects, as Column[i] returns them. Raises "
          "UnsupportedTypeError if two columns have one name.")
      .def(
          "__dataframe__",
          [](nb::handle self, nb::handle /*nan_as_null*/, nb::handle /*allow_copy*/) {
            return nb::module_::import_("crossdock._dataframe").attr("DataFrame")(self);
          },
          "nan_as_null"_a = false, "allow_copy"_a = true,
          "Returns the batch for the dataframe interchange protocol, without a copy: numbers, bool, text, dates and "
          "dictionaries on the host. Consumers should prefer Arrow's protocols, which have all types.")
      .def(
          "_select",
          [](const PyRecordBatch& self, const std::vector<int>& indices) {
            std::vector<array::Field> fields;
            for (const int index : indices) fields.push_back(self.batch.schema->fields().at(index));
            return PyRecordBatch{array::select_columns(
                self.batch, std::make_shared<array::Schema>(std::move(fields), self.batch.schema->metadata()),
                indices)};
          },
          "indices"_a)
      .def(
          "to_pydict",
          [](nb::handle self) { return nb::module_::import_("crossdock._values").attr("columns_of")(self); },
          "Returns a dict from each column's name to a list of its elements, as to_pylist().\n\n"
          "Raises `UnsupportedTypeError` if two columns have the same name, and otherwise the errors of "
          "`Column.to_pylist()`.")
      .def_prop_ro("_ready", batch_is_ready)
      .def("_repr_html_", [](nb::handle self) { return html_of(self, "of_batch"); })
      .def("__arrow_c_schema__", [](const PyRecordBatch& self) { return schema_capsule(*self.batch.schema); })
      .def(
          "__arrow_c_array__",
          [](const PyRecordBatch& self, nb::handle requested) {
            drain_deferred();
            return array_capsules(self.batch, requested);
          },
          "requested_schema"_a.none() = nb::none(),
          "Returns a pair of capsules of host memory, which keep the memory alive. A batch on a device is copied to "
          "the host; waits for the copy.\n\n"
          "requested_schema: a capsule of the schema in which the columns are wanted. Columns that it wants in another "
          "encoding are copied: text and binary data or lists with offsets of another width, text and binary data as "
          "views, dictionaries as plain values, and back. Raises UnsupportedTypeError if it differs in more than that.")
      .def(
          "__arrow_c_device_array__",
          [](const PyRecordBatch& self, nb::handle requested, const nb::kwargs& keywords) {
            drain_deferred();
            refuse_keywords("RecordBatch.__arrow_c_device_array__", keywords);
            return device_array_capsules(self.batch, requested);
          },
          "requested_schema"_a.none() = nb::none(), "keywords"_a,
          "Returns a pair of capsules without a copy, with the device of the memory and the event, if there is one, "
          "that the consumer must wait for. Unknown keywords raise NotImplementedError unless they are None.\n\n"
          "requested_schema: as for __arrow_c_array__, but raises UnsupportedError if data of a device would have to "
          "be converted.");
  add_methods_of_columns(module.attr("RecordBatch"));
}

}  // namespace crossdock::python
