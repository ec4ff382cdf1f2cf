#include "text.h"

#include "core/text.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

PyObject* decoded(std::string_view text, const char* errors) noexcept {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), errors);
}

nb::str checked_str(PyObject* text) {
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

}  // namespace

nb::str displayed(std::string_view text) { return checked_str(decoded(text, "replace")); }

nb::str escaped(std::string_view text) { return checked_str(decoded(text, "backslashreplace")); }

nb::object published_name(std::string_view name) {
  if (is_text_name(name)) return checked_str(decoded(name, "strict"));
  return nb::bytes(name.data(), name.size());
}

void set_error(PyObject* type, std::string_view text) noexcept {
  PyObject* const message = decoded(text, "replace");
  if (message == nullptr) return;
  PyErr_SetObject(type, message);
  Py_DECREF(message);
}

}  // namespace crossdock::python
