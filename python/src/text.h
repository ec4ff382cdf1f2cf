#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

/// Conversion of foreign bytes to a Python str: from a peer, a file, a driver or another library. Such bytes may not be
/// UTF-8, and nanobind's cast of a std::string would raise a bare UnicodeDecodeError. No other file converts them.
namespace crossdock::python {

/// Converts for display: bytes that aren't UTF-8 become U+FFFD. Needs the GIL. Throws nb::python_error (no memory).
nanobind::str displayed(std::string_view text);

/// Converts as displayed(), but bytes that aren't UTF-8 become \xNN, so that different bytes stay different. For JSON.
nanobind::str escaped(std::string_view text);

/// Returns the name of something published: a str if it is text (is_text_name()), else bytes.
nanobind::object published_name(std::string_view name);
/// Returns the bytes of a published name, as checked_name() of _options.py makes them.
inline std::string name_in(const nanobind::bytes& name) { return {name.c_str(), name.size()}; }

/// Sets the Python error `type` with displayed(text).
void set_error(PyObject* type, std::string_view text) noexcept;

}  // namespace crossdock::python
