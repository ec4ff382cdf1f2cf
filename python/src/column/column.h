#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>

#include "crossdock/array/record_batch.h"

/// crossdock.Column. The type and its hot calls use CPython's C API directly, as those of crossdock.Tensor do.
namespace crossdock::python {

/// The Python object: some consecutive elements of a column of a crossdock.RecordBatch, which it keeps alive. Never
/// changes after construction, so any thread may use it.
struct PyColumn {
  PyObject ob_base;           // what PyObject_HEAD declares
  PyObject* weak_references;  // directly after it: the type has its offset
  PyObject* batch;
  std::size_t column;
  std::int64_t start;
  std::int64_t length;
};

/// The type crossdock.Column, made by bind_column(). Python code can't derive from it.
extern PyTypeObject* column_type;

/// A crossdock.Column as an argument of a function that nanobind calls.
class ColumnObject : public nanobind::object {
 public:
  static bool is_column(PyObject* object) noexcept { return Py_TYPE(object) == column_type; }
  NB_OBJECT(ColumnObject, nanobind::object, "crossdock.Column", is_column)
  const PyColumn& operator*() const noexcept { return *reinterpret_cast<const PyColumn*>(ptr()); }
};

/// Returns a new Column of a crossdock.RecordBatch; null with the Python error set.
PyObject* new_column(PyObject* batch, std::size_t column, std::int64_t start, std::int64_t length) noexcept;
/// Makes a Column of the first column of a batch. Throws nb::python_error.
nanobind::object column_of(array::RecordBatch&& batch);
/// batch[key]: a Column by its index or name. Returns null with the Python error set: IndexError, NotFoundError,
/// InvalidArgumentError for a name that several columns have, TypeError.
PyObject* column_at(PyObject* batch, PyObject* key) noexcept;

/// Returns the elements as a batch of one column, without a copy. Makes a schema: for calls that aren't hot.
array::RecordBatch batch_of(const PyColumn& column);

void bind_column(nanobind::module_& module);

}  // namespace crossdock::python
