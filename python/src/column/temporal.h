#pragma once

#include <Python.h>

#include <cstdint>

#include "crossdock/array/column_view.h"
#include "values.h"

namespace crossdock::python {

/// Returns a new reference to a date, time, datetime or timedelta: the element of a column of such a type, as
/// value_of() does. A timestamp with a time zone becomes a datetime of that zone.
PyObject* temporal_value(const array::ColumnView& column, std::int64_t index, Use use);

}  // namespace crossdock::python
