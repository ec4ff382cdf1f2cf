#include "column.h"

#include <nanobind/stl/string.h>
#include <structmember.h>

#include <cstring>
#include <string>
#include <utility>

#include "../capsule.h"
#include "../deferred.h"
#include "../errors.h"
#include "../instance.h"
#include "../text.h"
#include "../types.h"
#include "array/slice.h"
#include "core/text.h"
#include "crossdock/array/column_view.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/dlpack.h"
#include "tensors.h"
#include "values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {

PyTypeObject* column_type = nullptr;

namespace {

using array::ColumnView;
using array::RecordBatch;

const RecordBatch& batch_in(PyObject* batch) { return nb::inst_ptr<PyRecordBatch>(batch)->batch; }
const PyColumn& column_in(PyObject* self) noexcept { return *reinterpret_cast<const PyColumn*>(self); }
const array::Field& field_of(const PyColumn& self) { return batch_in(self.batch).schema->fields()[self.column]; }

/// Returns a view for reading elements. Throws ExportError for memory that the host can't read, or can't read yet.
ColumnView view_of(const PyColumn& self) {
  const RecordBatch& batch = batch_in(self.batch);
  if (!batch.host_readable()) [[unlikely]] {
    throw ExportError("the elements are in memory of " + device::to_string(batch.device) +
                      ", or work on them is pending; batch.to(\"cpu\") has them on the host, and batch.wait() waits");
  }
  const ColumnView whole(batch, self.column);
  return self.length == whole.length() ? whole : whole.slice(self.start, self.length);
}

void deallocate(PyObject* self) noexcept {
  auto* const object = reinterpret_cast<PyColumn*>(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->batch);
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

Py_ssize_t length(PyObject* self) noexcept { return column_in(self).length; }

/// column[i] of the sequence protocol, by which Python iterates: `index` was made positive.
PyObject* item(PyObject* self, Py_ssize_t index) noexcept {
  const PyColumn& column = column_in(self);
  if (index < 0 || index >= column.length) {
    PyErr_Format(PyExc_IndexError, "element %zd is out of range: the column has %zd", index,
                 static_cast<Py_ssize_t>(column.length));
    return nullptr;
  }
  return guarded([&] { return value_of(view_of(column), index); });
}

PyObject* subscript(PyObject* self, PyObject* key) noexcept {
  const PyColumn& column = column_in(self);
  if (PyIndex_Check(key) != 0 && PyBool_Check(key) == 0) {
    const Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred() != nullptr) return nullptr;
    return item(self, index < 0 ? index + column.length : index);
  }
  if (PySlice_Check(key) == 0) {
    PyErr_Format(PyExc_TypeError, "a column can be indexed by integers and slices, not by %s",
                 type_name_of(key).c_str());
    return nullptr;
  }
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(key, &start, &stop, &step) != 0) return nullptr;
  const Py_ssize_t count = PySlice_AdjustIndices(column.length, &start, &stop, step);
  if (step != 1) {
    PyErr_SetString(PyExc_ValueError,
                    "a slice of a column has step 1, as Arrow has no strides; column.values can be sliced by any step");
    return nullptr;
  }
  return new_column(column.batch, column.column, column.start + start, count);
}

PyObject* name(PyObject* self, void*) noexcept {
  return guarded([&] { return displayed(field_of(column_in(self)).name).release().ptr(); });
}

PyObject* type(PyObject* self, void*) noexcept {
  return guarded([&] {
    const array::Field& field = field_of(column_in(self));
    const std::string text = field.dictionary ? "dictionary<" + array::type_name(field.dictionary->type) +
                                                    ", indices " + array::type_name(field.type) + ">"
                                              : array::type_name(field.type);
    return displayed(text).release().ptr();
  });
}

PyObject* null_count(PyObject* self, void*) noexcept {
  return guarded([&] { return PyLong_FromLongLong(view_of(column_in(self)).null_count()); });
}

PyObject* device_of(PyObject* self, void*) noexcept {
  return guarded([&] { return nb::cast(batch_in(column_in(self).batch).device).release().ptr(); });
}

PyObject* values(PyObject* self, void*) noexcept {
  return guarded([&] {
    drain_deferred();
    return values_of(batch_of(column_in(self))).release().ptr();
  });
}

PyObject* validity(PyObject* self, void*) noexcept {
  return guarded([&] {
    drain_deferred();
    const PyColumn& column = column_in(self);
    if (view_of(column).null_count() == 0) return Py_NewRef(Py_None);
    return validity_of(batch_of(column)).release().ptr();
  });
}

PyObject* dictionary(PyObject* self, void*) noexcept {
  return guarded([&] {
    const PyColumn& column = column_in(self);
    const RecordBatch& batch = batch_in(column.batch);
    if (!field_of(column).dictionary) return Py_NewRef(Py_None);
    const ColumnView whole(batch, column.column);
    return column_of(RecordBatch(whole.dictionary())).release().ptr();
  });
}

PyObject* to_pylist(PyObject* self, PyObject*) noexcept {
  return guarded([&] { return list_of(view_of(column_in(self))); });
}

/// For the texts of _values.py.
PyObject* shown_element(PyObject* self, PyObject* index) noexcept {
  const Py_ssize_t at = PyNumber_AsSsize_t(index, PyExc_IndexError);
  if (at == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return guarded([&] { return value_of(view_of(column_in(self)), at, kForText); });
}

/// For _dataframe.py: (format of the elements, or of the indices; offset; address and size of each buffer). The first
/// buffer is the validity, with the address 0 where there is none. Those of nested types are of the node alone.
PyObject* buffers(PyObject* self, PyObject*) noexcept {
  return guarded([&] {
    const ColumnView view = view_of(column_in(self));
    nb::list places;
    if (!array::type_layout(view.field().type).has_validity()) places.append(nb::make_tuple(0, 0));
    for (const array::BufferView& one : view.buffers()) {
      places.append(nb::make_tuple(reinterpret_cast<std::uintptr_t>(one.data), one.size));
    }
    array::Field plain;
    plain.type = view.field().type;
    plain.children = view.field().children;
    ArrowSchema exported;
    array::export_field(plain, &exported);
    const nb::str form = displayed(exported.format);
    exported.release(&exported);
    return nb::make_tuple(form, view.offset(), places).release().ptr();
  });
}

PyObject* ordered(PyObject* self, void*) noexcept {
  return guarded([&] { return PyBool_FromLong(field_of(column_in(self)).dictionary_ordered ? 1 : 0); });
}

PyObject* index_in_batch(PyObject* self, void*) noexcept { return PyLong_FromSize_t(column_in(self).column); }

PyGetSetDef attributes[] = {
    {"_ordered", ordered, nullptr, nullptr, nullptr},
    {"_index", index_in_batch, nullptr, nullptr, nullptr},
    {"name", name, nullptr, "The name of the column.", nullptr},
    {"type", type, nullptr, "The Arrow type, as a text: \"int64\", \"timestamp[us, UTC]\".", nullptr},
    {"null_count", null_count, nullptr,
     "The number of elements that are null by the column's own validity. Unions and run-end encoded columns have none "
     "of their own.",
     nullptr},
    {"device", device_of, nullptr, "Where the memory is, a crossdock.Device.", nullptr},
    {"values", values, nullptr,
     "The elements as a read-only Tensor, without a copy; bool is copied from bits to bytes. Where an element is null, "
     "its value has no meaning. Times and dates in units that NumPy doesn't have are integers; timestamps "
     "with a time zone are moments in UTC; a dictionary-encoded column gives its indices. Raises ExportError for text, "
     "lists of different lengths, and other types without elements of fixed size.",
     nullptr},
    {"validity", validity, nullptr,
     "A Tensor of bool, copied from bits: False where an element is null. None if none is.", nullptr},
    {"dictionary", dictionary, nullptr,
     "The Column of the dictionary's values, for a dictionary-encoded column: .values has indices into it. Else None.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {
    {"to_pylist", to_pylist, METH_NOARGS,
     "to_pylist($self, /)\n--\n\nReturns all elements as a list of Python objects, as column[i] returns each.\n\n"
     "Raises `ExportError` for memory that the host can't read or that work is pending on, `InvalidDataError` for "
     "elements that break Arrow's rules, and `ValueError` for times that Python's types can't express."},
    {"_shown", shown_element, METH_O, nullptr},
    {"_buffers", buffers, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, sizeof(PyObject), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

constexpr const char* kDoc =
    "A column of a batch, or some consecutive elements of one. Keeps the batch's memory alive. Immutable. Safe to "
    "share "
    "between threads.\n\n"
    "column[i] is an element as a Python object: None, bool, int, float, Decimal, str, bytes, date, time, datetime or "
    "timedelta; of a list a list, of a struct a dict, of a map a list of pairs, of an interval its months or a tuple "
    "of "
    "its parts. Values of dictionaries, unions and runs are looked up; an extension type gives what it is stored as. "
    "column[a:b] is a Column of the same memory. An element whose offset or index points out of its memory raises "
    "InvalidDataError. Elements with nanoseconds, and dates outside of the years 1 to 9999, raise ValueError.\n\n"
    "Without nulls, a column of numbers is also an array, without a copy: numpy.asarray(), torch.from_dlpack() and "
    "asarray() take it. Every consumer of Arrow's PyCapsule interface takes any column.";

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                       {Py_mp_length, reinterpret_cast<void*>(length)},
                       {Py_tp_iter, reinterpret_cast<void*>(PySeqIter_New)},
                       {Py_sq_item, reinterpret_cast<void*>(item)},
                       {Py_sq_length, reinterpret_cast<void*>(length)},
                       {0, nullptr}};

PyType_Spec spec = {"crossdock.Column", sizeof(PyColumn), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

/// Returns the index of the column that the key names. Throws.
std::size_t index_in(const array::Schema& schema, PyObject* key) {
  const std::vector<array::Field>& fields = schema.fields();
  if (PyUnicode_Check(key) != 0) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr) throw nb::python_error();
    const std::string_view wanted(text, static_cast<std::size_t>(size));
    std::size_t found = fields.size();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].name != wanted) continue;
      if (found != fields.size()) {
        throw InvalidArgumentError("columns " + std::to_string(found) + " and " + std::to_string(i) +
                                   " both have the name " + shown(wanted) + ": give an index");
      }
      found = i;
    }
    if (found == fields.size()) {
      std::vector<std::string> names;
      for (const array::Field& field : fields) names.push_back(excerpt(field.name));
      throw NotFoundError("there is no column " + shown(wanted) + "; there are " +
                          (names.empty() ? "none" : first_names(names)));
    }
    return found;
  }
  if (PyIndex_Check(key) == 0 || PyBool_Check(key) != 0) {
    throw_type_error(nb::handle(key), "a batch is indexed by the name or the index of a column, or by a slice of rows");
  }
  const Py_ssize_t given = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (given == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  const Py_ssize_t index = given < 0 ? given + static_cast<Py_ssize_t>(fields.size()) : given;
  if (index < 0 || index >= static_cast<Py_ssize_t>(fields.size())) {
    throw_python(PyExc_IndexError, "there is no column %zd: the batch has %zu", given, fields.size());
  }
  return static_cast<std::size_t>(index);
}

/// batch[a:b]: a batch of these rows.
PyObject* rows_in(const RecordBatch& batch, PyObject* key) {
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(key, &start, &stop, &step) != 0) throw nb::python_error();
  const Py_ssize_t count = PySlice_AdjustIndices(batch.num_rows, &start, &stop, step);
  if (step != 1) throw_python(PyExc_ValueError, "a slice of a batch has step 1, as Arrow has no strides");
  return nb::cast(PyRecordBatch{array::slice_rows(batch, start, count)}).release().ptr();
}

}  // namespace

PyObject* new_column(PyObject* batch, std::size_t column, std::int64_t start, std::int64_t length) noexcept {
  auto* const object = PyObject_New(PyColumn, column_type);
  if (object == nullptr) return nullptr;
  object->weak_references = nullptr;
  object->batch = Py_NewRef(batch);
  object->column = column;
  object->start = start;
  object->length = length;
  return reinterpret_cast<PyObject*>(object);
}

nb::object column_of(RecordBatch&& batch) {
  const std::int64_t rows = batch.num_rows;
  const nb::object owner = nb::cast(PyRecordBatch{std::move(batch)});
  PyObject* const made = new_column(owner.ptr(), 0, 0, rows);
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

PyObject* batch_item(PyObject* batch, PyObject* key) noexcept {
  return guarded([&] {
    const RecordBatch& of = initialized<PyRecordBatch>(batch).batch;
    if (PySlice_Check(key) != 0) return rows_in(of, key);
    const std::size_t index = index_in(*of.schema, key);
    return new_column(batch, index, 0, of.num_rows);
  });
}

RecordBatch batch_of(const PyColumn& column) {
  const RecordBatch& batch = batch_in(column.batch);
  RecordBatch one = batch;
  if (batch.schema->fields().size() != 1) {
    const auto schema = std::make_shared<array::Schema>(std::vector<array::Field>{field_of(column)});
    one = array::select_columns(batch, schema, {static_cast<int>(column.column)});
  }
  return column.length == one.num_rows ? one : array::slice_rows(std::move(one), column.start, column.length);
}

void bind_column(nb::module_& module) {
  const nb::object made = nb::steal(PyType_FromSpec(&spec));
  if (!made.is_valid()) throw nb::python_error();
  column_type = reinterpret_cast<PyTypeObject*>(made.ptr());
  Py_INCREF(made.ptr());
  const auto def = [&](const char* method, auto&& function, const auto&... extra) {
    nb::cpp_function_def(std::forward<decltype(function)>(function), nb::scope(made), nb::name(method), nb::is_method(),
                         extra...);
  };
  def("__arrow_c_schema__",
      [](const ColumnObject& self) { return schema_capsule(array::Schema({field_of(*self)}), Form::kColumn); });
  def(
      "__arrow_c_array__",
      [](const ColumnObject& self, nb::handle requested) {
        drain_deferred();
        return array_capsules(batch_of(*self), requested, Form::kColumn);
      },
      "requested_schema"_a.none() = nb::none());
  def(
      "__arrow_c_device_array__",
      [](const ColumnObject& self, nb::handle requested, const nb::kwargs& keywords) {
        drain_deferred();
        refuse_keywords("Column.__arrow_c_device_array__", keywords);
        return device_array_capsules(batch_of(*self), requested, Form::kColumn);
      },
      "requested_schema"_a.none() = nb::none(), "keywords"_a);
  def(
      "__array__",
      [](const ColumnObject& self, const nb::args& arguments, const nb::kwargs& keywords) {
        drain_deferred();
        return array_of(batch_of(*self)).attr("__array__")(*arguments, **keywords);
      },
      "Returns a NumPy array, without a copy where the elements are numbers. Raises ExportError for a column with "
      "nulls, for text and nested types, and for memory that the host can't read.");
  def(
      "__dlpack__",
      [](const ColumnObject& self, const nb::args& arguments, const nb::kwargs& keywords) {
        drain_deferred();
        return array_of(batch_of(*self)).attr("__dlpack__")(*arguments, **keywords);
      },
      "As Tensor.__dlpack__. Raises ExportError for a column with nulls, and for text and nested types.");
  def(
      "__dlpack_device__",
      [](const ColumnObject& self) {
        const device::Device device = exchange::dlpack_device(batch_in((*self).batch).device);
        return nb::make_tuple(static_cast<int>(device.type), device.id);
      },
      "Returns (device type, device id), DLPack's numbers.");
  def("__repr__", [](nb::handle self) { return nb::module_::import_("crossdock._values").attr("column_text")(self); });
  module.attr("Column") = made;
  make_immutable(column_type);
}

}  // namespace crossdock::python
