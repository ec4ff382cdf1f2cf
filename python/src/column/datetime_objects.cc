#include "datetime_objects.h"

#include <nanobind/nanobind.h>
#ifndef Py_LIMITED_API
// After Python.h, which nanobind includes.
#include <datetime.h>
#endif

namespace nb = nanobind;

namespace crossdock::python {

#ifdef Py_LIMITED_API

namespace {

// Never dropped: elements are read until the interpreter ends.
PyObject* date = nullptr;
PyObject* time = nullptr;
PyObject* timedelta = nullptr;
PyObject* datetime = nullptr;
PyObject* utc_zone = nullptr;

}  // namespace

void import_datetime() {
  if (utc_zone != nullptr) return;
  const nb::module_ module = nb::module_::import_("datetime");
  date = nb::object(module.attr("date")).release().ptr();
  time = nb::object(module.attr("time")).release().ptr();
  timedelta = nb::object(module.attr("timedelta")).release().ptr();
  datetime = nb::object(module.attr("datetime")).release().ptr();
  utc_zone = nb::object(module.attr("timezone").attr("utc")).release().ptr();
}

PyObject* new_date(int year, int month, int day) noexcept {
  return PyObject_CallFunction(date, "iii", year, month, day);
}

PyObject* new_time(int hour, int minute, int second, int microsecond) noexcept {
  return PyObject_CallFunction(time, "iiii", hour, minute, second, microsecond);
}

PyObject* new_timedelta(int days, int seconds, int microseconds) noexcept {
  return PyObject_CallFunction(timedelta, "iii", days, seconds, microseconds);
}

PyObject* new_datetime(int year, int month, int day, int hour, int minute, int second, int microsecond,
                       bool utc) noexcept {
  return PyObject_CallFunction(datetime, "iiiiiiiO", year, month, day, hour, minute, second, microsecond,
                               utc ? utc_zone : Py_None);
}

#else

void import_datetime() {
  if (PyDateTimeAPI == nullptr) PyDateTime_IMPORT;
  if (PyDateTimeAPI == nullptr) throw nb::python_error();
}

PyObject* new_date(int year, int month, int day) noexcept { return PyDate_FromDate(year, month, day); }

PyObject* new_time(int hour, int minute, int second, int microsecond) noexcept {
  return PyTime_FromTime(hour, minute, second, microsecond);
}

PyObject* new_timedelta(int days, int seconds, int microseconds) noexcept {
  return PyDelta_FromDSU(days, seconds, microseconds);
}

PyObject* new_datetime(int year, int month, int day, int hour, int minute, int second, int microsecond,
                       bool utc) noexcept {
  return PyDateTimeAPI->DateTime_FromDateAndTime(year, month, day, hour, minute, second, microsecond,
                                                 utc ? PyDateTime_TimeZone_UTC : Py_None, PyDateTimeAPI->DateTimeType);
}

#endif

}  // namespace crossdock::python
