#pragma once

#include <Python.h>

#include <cstdint>

#include "crossdock/array/column_view.h"

/// Elements of columns as Python objects.
namespace crossdock::python {

/// What an element is read for.
enum class Use : std::uint8_t {
  kValue,  ///< All of it. One that Python has no object for raises ValueError.
  kText,   ///< A short text for people: without nanoseconds, and with the beginning of what is long.
};

/// Returns a new reference to one element: None, bool, int, float, decimal.Decimal, str, bytes, date, time, datetime,
/// timedelta; of a list a list, of a struct a dict, of a map a list of pairs, of an interval its months or a tuple of
/// its parts. The values of dictionaries, unions and runs are looked up.
///
/// Needs the GIL. Throws as ColumnView does; InvalidDataError for text that isn't UTF-8 and times outside of a day;
/// UnsupportedTypeError for a struct with two fields of one name; nb::python_error, as ValueError for a date that
/// Python's dates don't reach.
PyObject* value_of(const array::ColumnView& column, std::int64_t index, Use use = Use::kValue);

/// Returns a new list of all elements. Ctrl-C interrupts it.
PyObject* list_of(const array::ColumnView& column);

}  // namespace crossdock::python
