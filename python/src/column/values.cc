#include "values.h"

#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "../errors.h"
#include "../gil.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "temporal.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::ColumnView;
using array::TypeId;

// Of an element that is shown to people.
constexpr std::size_t kMostBytes = 200;
constexpr std::int64_t kMostItems = 20;

constexpr std::int64_t kBetweenSignals = 1 << 16;  // Elements of this thread between two looks for Ctrl-C.

PyObject* checked_new(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return made;
}

[[noreturn]] void refuse(const ColumnView& column, std::int64_t index, const char* what) {
  throw InvalidDataError("element " + std::to_string(index) + " of column " + shown(column.field().name) + " " + what);
}

PyObject* text(const ColumnView& column, std::int64_t index, Use use) {
  const std::string_view bytes = column.bytes(index);
  Py_ssize_t consumed = 0;  // of a text that is cut: up to its last whole character
  const bool cut = use.text && bytes.size() > kMostBytes;
  PyObject* const made = cut ? PyUnicode_DecodeUTF8Stateful(bytes.data(), kMostBytes, nullptr, &consumed)
                             : PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), nullptr);
  if (made != nullptr) return made;
  if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) == 0) throw nb::python_error();
  PyErr_Clear();
  refuse(column, index, "is not UTF-8");
}

PyObject* bytes(const ColumnView& column, std::int64_t index, Use use) {
  std::string_view content = column.bytes(index);
  if (use.text) content = content.substr(0, kMostBytes);
  return checked_new(PyBytes_FromStringAndSize(content.data(), static_cast<Py_ssize_t>(content.size())));
}

PyObject* decimal(const ColumnView& column, std::int64_t index) {
  const std::string_view number = column.bytes(index);
  return nb::module_::import_("crossdock._values")
      .attr("decimal")(nb::bytes(number.data(), number.size()), column.field().type.scale)
      .release()
      .ptr();
}

/// Returns the value of an IEEE 754 number of 16 bits.
double half_value(std::uint16_t bits) noexcept {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 0x400, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

PyObject* half(const ColumnView& column, std::int64_t index) {
  return checked_new(PyFloat_FromDouble(half_value(column.value<std::uint16_t>(index))));
}

/// Counts an element that was read. Every so often looks for Ctrl-C, and lets other threads run: lists in lists may
/// have many elements though each has few.
void count_element() {
  thread_local std::int64_t left = kBetweenSignals;
  if (--left > 0) return;
  left = kBetweenSignals;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  const GilRelease others_run;
}

/// A list that is being filled. Python's garbage collector, which doesn't expect empty places, sees it once it is full.
class Filling {
 public:
  explicit Filling(std::int64_t size) : list_(nb::steal(checked_new(PyList_New(static_cast<Py_ssize_t>(size))))) {
    PyObject_GC_UnTrack(list_.ptr());
  }
  void set(std::int64_t index, PyObject* item) noexcept {
    set_list_item(list_.ptr(), static_cast<Py_ssize_t>(index), item);
  }
  /// Returns a new reference to the full list.
  PyObject* done() {
    PyObject_GC_Track(list_.ptr());
    return list_.release().ptr();
  }

 private:
  nb::object list_;
};

/// Returns an element of a child: for a text, one level below.
nb::object object_of(const ColumnView& column, std::int64_t index, Use use) {
  if (use.text) --use.levels;
  return nb::steal(value_of(column, index, use));
}

PyObject* list(const ColumnView& column, std::int64_t index, Use use) {
  array::ElementRange range = column.elements(index);
  const bool cut = use.text && range.length > kMostItems;
  if (cut) range.length = kMostItems;
  const ColumnView items = column.child(0).slice(range.start, range.length);
  Filling made(range.length + (cut ? 1 : 0));
  const bool pairs = column.id() == TypeId::kMap;
  for (std::int64_t i = 0; i < range.length; ++i) {
    count_element();
    nb::object item = pairs ? nb::make_tuple(object_of(items.child(0), i, use), object_of(items.child(1), i, use))
                            : object_of(items, i, use);
    made.set(i, item.release().ptr());
  }
  if (cut) made.set(range.length, Py_NewRef(Py_Ellipsis));
  return made.done();
}

PyObject* dictionary_of_fields(const ColumnView& column, std::int64_t index, Use use) {
  nb::dict made;
  for (std::size_t i = 0; i < column.n_children(); ++i) {
    const ColumnView child = column.child(i);
    const std::string& name = child.field().name;
    const nb::object key =
        nb::steal(checked_new(PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace")));
    if (use.text && static_cast<std::int64_t>(i) == kMostItems) break;
    if (made.contains(key)) {
      throw UnsupportedTypeError("a struct in column " + shown(column.field().name) + " has two fields " + shown(name) +
                                 ", which a dict can't have: read it with pyarrow.record_batch(batch)");
    }
    made[key] = object_of(child, index, use);
  }
  return made.release().ptr();
}

PyObject* interval(const ColumnView& column, std::int64_t index) {
  struct DayTime {
    std::int32_t days, milliseconds;
  };
  struct MonthDayNano {
    std::int32_t months, days;
    std::int64_t nanoseconds;
  };
  if (column.id() == TypeId::kIntervalDayTime) {
    const auto parts = column.value<DayTime>(index);
    return nb::make_tuple(parts.days, parts.milliseconds).release().ptr();
  }
  const auto parts = column.value<MonthDayNano>(index);
  return nb::make_tuple(parts.months, parts.days, parts.nanoseconds).release().ptr();
}

}  // namespace

PyObject* value_of(const ColumnView& column, std::int64_t index, Use use) {
  if (!column.is_valid(index)) return Py_NewRef(Py_None);
  if (column.is_dictionary()) return value_of(column.values(), column.index_of_value(index), use);
  if (use.text && use.levels == 0 && column.n_children() > 0) return Py_NewRef(Py_Ellipsis);
  switch (column.id()) {
    case TypeId::kNull: break;
    case TypeId::kBool: return PyBool_FromLong(column.boolean(index) ? 1 : 0);
    case TypeId::kInt8: return checked_new(PyLong_FromLong(column.value<std::int8_t>(index)));
    case TypeId::kInt16: return checked_new(PyLong_FromLong(column.value<std::int16_t>(index)));
    case TypeId::kInt32:
    case TypeId::kIntervalMonths: return checked_new(PyLong_FromLong(column.value<std::int32_t>(index)));
    case TypeId::kInt64: return checked_new(PyLong_FromLongLong(column.value<std::int64_t>(index)));
    case TypeId::kUInt8: return checked_new(PyLong_FromLong(column.value<std::uint8_t>(index)));
    case TypeId::kUInt16: return checked_new(PyLong_FromLong(column.value<std::uint16_t>(index)));
    case TypeId::kUInt32: return checked_new(PyLong_FromUnsignedLong(column.value<std::uint32_t>(index)));
    case TypeId::kUInt64: return checked_new(PyLong_FromUnsignedLongLong(column.value<std::uint64_t>(index)));
    case TypeId::kFloat16: return half(column, index);
    case TypeId::kFloat32: return checked_new(PyFloat_FromDouble(column.value<float>(index)));
    case TypeId::kFloat64: return checked_new(PyFloat_FromDouble(column.value<double>(index)));
    case TypeId::kDecimal32:
    case TypeId::kDecimal64:
    case TypeId::kDecimal128:
    case TypeId::kDecimal256: return decimal(column, index);
    case TypeId::kDate32:
    case TypeId::kDate64:
    case TypeId::kTime32:
    case TypeId::kTime64:
    case TypeId::kTimestamp:
    case TypeId::kDuration: return temporal_value(column, index, use);
    case TypeId::kUtf8:
    case TypeId::kLargeUtf8:
    case TypeId::kUtf8View: return text(column, index, use);
    case TypeId::kBinary:
    case TypeId::kLargeBinary:
    case TypeId::kBinaryView:
    case TypeId::kFixedSizeBinary: return bytes(column, index, use);
    case TypeId::kList:
    case TypeId::kLargeList:
    case TypeId::kListView:
    case TypeId::kLargeListView:
    case TypeId::kFixedSizeList:
    case TypeId::kMap: return list(column, index, use);
    case TypeId::kStruct: return dictionary_of_fields(column, index, use);
    case TypeId::kIntervalDayTime:
    case TypeId::kIntervalMonthDayNano: return interval(column, index);
    case TypeId::kSparseUnion:
    case TypeId::kDenseUnion:
    case TypeId::kRunEndEncoded: {
      const array::ElementPlace place = column.place(index);
      return value_of(column.child(static_cast<std::size_t>(place.child)), place.index, use);
    }
  }
  return Py_NewRef(Py_None);
}

PyObject* list_of(const ColumnView& column) {
  Filling made(column.length());
  for (std::int64_t i = 0; i < column.length(); ++i) {
    count_element();
    made.set(i, value_of(column, i));
  }
  return made.done();
}

}  // namespace crossdock::python
