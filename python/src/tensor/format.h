#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/element_type.h"

/// Formats of Python's buffer protocol (PEP 3118; the struct module's characters).
namespace crossdock::python {

/// The type of a format of one element; nothing for what has no single type: structures, several items. `itemsize` is
/// the buffer's. Null means bytes. Throws UnsupportedTypeError for Python objects and pointers, InvalidDataError where
/// itemsize and format disagree.
std::optional<array::ElementType> type_of_format(const char* format, std::int64_t itemsize);

/// The format of a type, for good; null if it has none (bfloat16, dates, structures, vectors).
const char* format_of_type(const array::ElementType& type) noexcept;

}  // namespace crossdock::python
