#include <Python.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "crossdock/core/bytes.h"
#include "crossdock/core/error.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::ElementType;
using array::Tensor;
using array::TypeCode;

constexpr std::size_t kLargest = 16;  ///< Bytes of the largest number: complex128.

/// Returns true if the elements are numbers or bools that Python has a type for.
bool is_number(const ElementType& type) noexcept {
  if (type.lanes != 1 || type.described) return false;
  const auto is_one_of = [&](auto... bits) { return ((type.bits == bits) || ...); };
  switch (type.code) {
    case TypeCode::kBool: return is_one_of(8);
    case TypeCode::kInt:
    case TypeCode::kUInt: return is_one_of(8, 16, 32, 64);
    case TypeCode::kFloat: return is_one_of(16, 32, 64);
    case TypeCode::kBfloat: return is_one_of(16);
    case TypeCode::kComplex: return is_one_of(64, 128);
    default: return false;
  }
}

/// Reads a float of `size` bytes in this machine's byte order.
double real(const std::byte* bytes, std::size_t size) {
  if (size == sizeof(double)) {
    double value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  if (size == sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  const int little = std::endian::native == std::endian::little ? 1 : 0;
  const double value = PyFloat_Unpack2(reinterpret_cast<const char*>(bytes), little);
  if (value == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

PyObject* integer(const std::byte* bytes, const ElementType& type) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, type.bits / 8U);
  if constexpr (std::endian::native == std::endian::big) value >>= 64U - type.bits;
  if (type.code == TypeCode::kUInt) return PyLong_FromUnsignedLongLong(value);
  const unsigned unused = 64U - type.bits;
  return PyLong_FromLongLong(static_cast<std::int64_t>(value << unused) >> unused);
}

/// Reads one element. Its type must be one for which is_number() is true.
nb::object value_at(const std::byte* element, const ElementType& type) {
  const auto size = static_cast<std::size_t>(type.itemsize());
  std::array<std::byte, kLargest> bytes{};
  std::copy_n(element, size, bytes.begin());
  const bool complex = type.code == TypeCode::kComplex;
  if (type.swapped) {
    const std::size_t part = complex ? size / 2 : size;
    for (std::size_t at = 0; at < size; at += part) std::reverse(bytes.begin() + at, bytes.begin() + at + part);
  }
  switch (type.code) {
    case TypeCode::kBool: return checked(PyBool_FromLong(bytes[0] != std::byte{0} ? 1 : 0));
    case TypeCode::kInt:
    case TypeCode::kUInt: return checked(integer(bytes.data(), type));
    case TypeCode::kBfloat: {
      // A bfloat16 is the upper half of a float32.
      std::uint16_t upper = 0;
      std::memcpy(&upper, bytes.data(), sizeof upper);
      return checked(PyFloat_FromDouble(std::bit_cast<float>(std::uint32_t{upper} << 16U)));
    }
    case TypeCode::kComplex:
      return checked(PyComplex_FromDoubles(real(bytes.data(), size / 2), real(bytes.data() + size / 2, size / 2)));
    default: return checked(PyFloat_FromDouble(real(bytes.data(), size)));
  }
}

/// Waits until the values can be read on the host. Throws if they can't be read here; the message says how to read
/// them.
void make_readable(const Tensor& tensor) {
  if (!tensor.host_accessible()) {
    throw ExportError("the tensor is in memory of " + device::to_string(tensor.device) +
                      ", which the host can't read; copy it with .to(\"cpu\")");
  }
  if (tensor.mask) throw UnsupportedError("the tensor has a mask, and its values may be invalid: see .mask");
  if (!is_number(tensor.type)) {
    const bool numpys = !array::typestr_of(tensor.type).empty();
    throw UnsupportedTypeError("elements of type " + array::element_type_name(tensor.type) +
                               " are no numbers of Python's; a library that has the type reads them, as in " +
                               (numpys ? "numpy.asarray(tensor).tolist()" : "torch.from_dlpack(tensor).tolist()"));
  }
  wait_for(tensor);
}

nb::object the_value(const Tensor& tensor) {
  make_readable(tensor);
  return value_at(static_cast<const std::byte*>(tensor.data), tensor.type);
}

/// Makes the nested lists of dimension `dimension` and those after it. `first` is the address of their first element.
nb::object values(const Tensor& tensor, std::size_t dimension, const std::byte* first) {
  if (dimension == tensor.shape().size()) return value_at(first, tensor.type);
  const std::int64_t extent = tensor.shape()[dimension];
  nb::object list = checked(PyList_New(extent));
  for (std::int64_t i = 0; i < extent; ++i) {
    PyList_SET_ITEM(list.ptr(), i,
                    values(tensor, dimension + 1, moved_by(first, i * tensor.strides()[dimension])).release().ptr());
  }
  return list;
}

/// Implements float(), int() and bool() for a tensor of one element.
PyObject* converted(PyObject* self, const char* function, PyObject* (*convert)(PyObject*)) noexcept {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (tensor.size() != 1) {
      PyErr_Format(PyExc_TypeError,
                   "%s is for a tensor of one element, and this one has shape %s: take one of them, as in tensor[0], "
                   "or see .tolist()",
                   function, array::shape_text(tensor.shape()).c_str());
      return nullptr;
    }
    return convert(the_value(tensor).ptr());
  });
}

}  // namespace

PyObject* item(PyObject* self, PyObject* /*unused*/) noexcept {
  return guarded([&] {
    const Tensor& tensor = tensor_of(self);
    if (tensor.size() != 1) {
      throw InvalidArgumentError("item() is for a tensor of one element, and this one has shape " +
                                 array::shape_text(tensor.shape()) +
                                 ": take one of them, as in tensor[0].item(), or see .tolist()");
    }
    return the_value(tensor).release().ptr();
  });
}

PyObject* to_list(PyObject* self, PyObject* /*unused*/) noexcept {
  return guarded([&] {
    const Tensor& tensor = tensor_of(self);
    make_readable(tensor);
    return values(tensor, 0, static_cast<const std::byte*>(tensor.data)).release().ptr();
  });
}

PyObject* as_float(PyObject* self) noexcept { return converted(self, "float()", PyNumber_Float); }
PyObject* as_int(PyObject* self) noexcept { return converted(self, "int()", PyNumber_Long); }

int as_bool(PyObject* self) noexcept {
  PyObject* const value = converted(self, "bool()", [](PyObject* of) {
    const int truth = PyObject_IsTrue(of);
    return truth < 0 ? nullptr : PyBool_FromLong(truth);
  });
  if (value == nullptr) return -1;
  const int truth = value == Py_True ? 1 : 0;
  Py_DECREF(value);
  return truth;
}

}  // namespace crossdock::python
