#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/tensor.h"

/// Formats of Python's buffer protocol (PEP 3118, with the characters of the module struct).
namespace crossdock::python {

/// Converts the format of one element to a type. Returns nullopt if there is no single type: for structures and several
/// items. `itemsize` is the buffer's. A null format means bytes. Throws UnsupportedTypeError for Python objects and
/// pointers, and for elements that a buffer calls single bytes although they are larger (packed structures and unions
/// of ctypes); InvalidDataError if itemsize and format disagree otherwise.
std::optional<array::ElementType> type_of_format(const char* format, std::int64_t itemsize);

/// Returns the format of a type, or null if it has none (bfloat16, dates, structures, vectors). The text is static.
const char* format_of_type(const array::ElementType& type) noexcept;
/// Returns the same without a byte order. `in_c`: with the sizes of C on this machine, else with the standard ones.
const char* format_of_number(const array::ElementType& type, bool in_c) noexcept;

}  // namespace crossdock::python
