#pragma once

#include <Python.h>

/// Objects of Python's module datetime: by its C API, or, as the stable ABI has none, by calls of its classes.
namespace crossdock::python {

/// Imports the module, the first time. Throws nb::python_error. Called before all others.
void import_datetime();

// The parts must be in the range of Python's. These return a new reference, or null with the Python error set, and
// don't throw.

PyObject* new_date(int year, int month, int day) noexcept;
PyObject* new_time(int hour, int minute, int second, int microsecond) noexcept;
PyObject* new_timedelta(int days, int seconds, int microseconds) noexcept;
/// utc: with the time zone UTC; else without one.
PyObject* new_datetime(int year, int month, int day, int hour, int minute, int second, int microsecond,
                       bool utc) noexcept;

}  // namespace crossdock::python
