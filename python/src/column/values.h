#pragma once

#include <Python.h>

#include <cstdint>

#include "crossdock/array/column_view.h"

/// Elements of columns as Python objects.
namespace crossdock::python {

/// What an element is read for.
struct Use {
  /// A short text for people: without nanoseconds, and with the beginning of what is long or deep. Else all of the
  /// element, and one that Python has no object for raises ValueError.
  bool text = false;
  int levels = 0;  ///< Of a text: the levels of nesting that are shown, below which is "...".
};
inline constexpr Use kForText{true, 3};

/// Returns a new reference to one element: None, bool, int, float, decimal.Decimal, str, bytes, date, time, datetime,
/// timedelta; of a list a list, of a struct a dict, of a map a list of pairs, of an interval its months or a tuple of
/// its parts. The values of dictionaries, unions and runs are looked up.
///
/// Needs the GIL. Throws as ColumnView does; InvalidDataError for text that isn't UTF-8 and times outside of a day;
/// UnsupportedTypeError for a struct with two fields of one name; nb::python_error, as ValueError for a date that
/// Python's dates don't reach.
PyObject* value_of(const array::ColumnView& column, std::int64_t index, Use use = {});

/// Returns a new list of all elements. Ctrl-C interrupts it.
PyObject* list_of(const array::ColumnView& column);

}  // namespace crossdock::python
