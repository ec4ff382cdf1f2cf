#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/record_batch.h"

/// The elements of a column as arrays: each function takes a batch of one column and returns a crossdock.Tensor.
namespace crossdock::python {

/// The elements, whatever is null: Column.values. Throws ExportError for types without elements of fixed size.
nanobind::object values_of(array::RecordBatch column);

/// Which elements are valid, as bytes in new memory: Column.validity. The host must be able to read the batch.
nanobind::object validity_of(const array::RecordBatch& column);

/// The column as the array that it is: for __array__ and __dlpack__. Throws ExportError for nulls, and for types that
/// no array has.
nanobind::object array_of(const array::RecordBatch& column);

}  // namespace crossdock::python
