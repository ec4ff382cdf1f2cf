#include "temporal.h"

#include <nanobind/nanobind.h>

#include <string>

#include "../errors.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "datetime_objects.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::ColumnView;
using array::TimeUnit;
using array::TypeId;

constexpr std::int64_t kSecondsOfDay = 86400;
constexpr std::int64_t kMicros = 1000000;
// Days from 1970-01-01 to the first and last dates of Python's.
constexpr std::int64_t kFirstDay = -719162;
constexpr std::int64_t kLastDay = 2932896;
constexpr std::int64_t kMostDeltaDays = 999999999;

std::int64_t per_second(TimeUnit unit) noexcept {
  switch (unit) {
    case TimeUnit::kSecond: return 1;
    case TimeUnit::kMilli: return 1000;
    case TimeUnit::kMicro: return kMicros;
    case TimeUnit::kNano: break;
  }
  return 1000 * kMicros;
}

/// Rounds down, also below zero.
std::int64_t floor_divide(std::int64_t number, std::int64_t by) noexcept {
  return number / by - (number % by < 0 ? 1 : 0);
}

/// A number of seconds, and microseconds below one.
struct Moment {
  std::int64_t seconds = 0;
  std::int64_t micros = 0;
};

[[noreturn]] void refuse(const ColumnView& column, std::int64_t index, std::int64_t number, const char* what) {
  throw_python(PyExc_ValueError, "element %lld of column %s, %lld as %s, %s; column.values has the numbers",
               static_cast<long long>(index), shown(column.field().name).c_str(), static_cast<long long>(number),
               array::type_name(column.field().type).c_str(), what);
}

/// An element that Python has no object for: for a text its number.
PyObject* number_or_refuse(const ColumnView& column, std::int64_t index, std::int64_t number, Use use,
                           const char* what) {
  if (!use.text) refuse(column, index, number, what);
  return PyLong_FromLongLong(number);
}

Moment moment_of(const ColumnView& column, std::int64_t index, std::int64_t number, Use use) {
  const std::int64_t units = per_second(column.field().type.unit);
  Moment moment;
  moment.seconds = floor_divide(number, units);
  const std::int64_t below = number % units;
  const std::int64_t rest = below < 0 ? below + units : below;
  if (units <= kMicros) {
    moment.micros = rest * (kMicros / units);
    return moment;
  }
  if (rest % 1000 != 0 && !use.text) {
    refuse(column, index, number, "has nanoseconds, which Python's times don't have");
  }
  moment.micros = rest / 1000;
  return moment;
}

struct Date {
  int year = 0, month = 0, day = 0;
};

/// Returns the date of the proleptic Gregorian calendar, so many days after 1970-01-01. Counts years from March on, so
/// that the day that is left out is the last one of a year.
Date date_of(std::int64_t days) noexcept {
  constexpr std::int64_t kOf400 = 146097;
  constexpr std::int64_t kTo0000March = 719468;
  const std::int64_t since = days + kTo0000March;
  const std::int64_t era = floor_divide(since, kOf400);
  const std::int64_t in_era = since - era * kOf400;
  const std::int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
  const std::int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
  const std::int64_t month = (5 * in_year + 2) / 153;  // 0 is March
  Date date;
  date.day = static_cast<int>(in_year - (153 * month + 2) / 5 + 1);
  date.month = static_cast<int>(month < 10 ? month + 3 : month - 9);
  date.year = static_cast<int>(year + era * 400 + (date.month <= 2 ? 1 : 0));
  return date;
}

PyObject* date(const ColumnView& column, std::int64_t index, Use use) {
  std::int64_t days = 0;
  if (column.id() == TypeId::kDate32) {
    days = column.value<std::int32_t>(index);
  } else {
    days = floor_divide(column.value<std::int64_t>(index), kSecondsOfDay * 1000);
  }
  if (days < kFirstDay || days > kLastDay) {
    return number_or_refuse(column, index, days, use, "is outside of the years 1 to 9999");
  }
  const Date date = date_of(days);
  return new_date(date.year, date.month, date.day);
}

PyObject* time(const ColumnView& column, std::int64_t index, Use use) {
  const std::int64_t number = column.id() == TypeId::kTime32 ? std::int64_t{column.value<std::int32_t>(index)}
                                                             : column.value<std::int64_t>(index);
  const Moment moment = moment_of(column, index, number, use);
  if (moment.seconds < 0 || moment.seconds >= kSecondsOfDay) {
    throw InvalidDataError("element " + std::to_string(index) + " of column " + shown(column.field().name) + " is " +
                           std::to_string(moment.seconds) + " s, which is no time of a day");
  }
  const auto seconds = static_cast<int>(moment.seconds);
  return new_time(seconds / 3600, seconds / 60 % 60, seconds % 60, static_cast<int>(moment.micros));
}

PyObject* duration(const ColumnView& column, std::int64_t index, Use use) {
  const auto number = column.value<std::int64_t>(index);
  const Moment moment = moment_of(column, index, number, use);
  const std::int64_t days = floor_divide(moment.seconds, kSecondsOfDay);
  if (days < -kMostDeltaDays || days > kMostDeltaDays) {
    return number_or_refuse(column, index, number, use, "is longer than Python's timedelta");
  }
  return new_timedelta(static_cast<int>(days), static_cast<int>(moment.seconds - days * kSecondsOfDay),
                       static_cast<int>(moment.micros));
}

PyObject* timestamp(const ColumnView& column, std::int64_t index, Use use) {
  const auto number = column.value<std::int64_t>(index);
  const Moment moment = moment_of(column, index, number, use);
  const std::int64_t days = floor_divide(moment.seconds, kSecondsOfDay);
  if (days < kFirstDay || days > kLastDay) {
    return number_or_refuse(column, index, number, use, "is outside of the years 1 to 9999");
  }
  const Date date = date_of(days);
  const auto seconds = static_cast<int>(moment.seconds - days * kSecondsOfDay);
  const std::string& zone = column.field().type.timezone;
  nb::object made = nb::steal(new_datetime(date.year, date.month, date.day, seconds / 3600, seconds / 60 % 60,
                                           seconds % 60, static_cast<int>(moment.micros), !zone.empty()));
  if (!made.is_valid()) throw nb::python_error();
  if (zone.empty() || zone == "UTC") return made.release().ptr();
  try {
    return nb::module_::import_("crossdock._values").attr("in_zone")(made, zone.c_str()).release().ptr();
  } catch (nb::python_error&) {
    if (!use.text) throw;
    return made.release().ptr();  // of a zone that isn't known here: in UTC
  }
}

}  // namespace

PyObject* temporal_value(const ColumnView& column, std::int64_t index, Use use) {
  import_datetime();
  PyObject* made = nullptr;
  switch (column.id()) {
    case TypeId::kDate32:
    case TypeId::kDate64: made = date(column, index, use); break;
    case TypeId::kTime32:
    case TypeId::kTime64: made = time(column, index, use); break;
    case TypeId::kDuration: made = duration(column, index, use); break;
    default: made = timestamp(column, index, use); break;
  }
  if (made == nullptr) throw nb::python_error();
  return made;
}

}  // namespace crossdock::python
