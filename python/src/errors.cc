#include "errors.h"

#include <nanobind/nanobind.h>

#include <array>
#include <exception>
#include <string>

#include "crossdock/core/error.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

constexpr int kLastCode = static_cast<int>(ErrorCode::kStreamBusy);
// By code; references for good.
std::array<PyObject*, kLastCode + 1> classes{};

void translate(const std::exception_ptr& pointer, void* /*unused*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const int code = static_cast<int>(error.code());
    PyObject* const type = code > 0 && code <= kLastCode ? classes[static_cast<std::size_t>(code)] : classes[0];
    // Messages quote names and paths, which may hold any bytes.
    const std::string text = error.what();
    PyObject* const message = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
    if (message == nullptr) return;
    PyErr_SetObject(type, message);
    Py_DECREF(message);
  }
}

}  // namespace

void register_errors() {
  const nb::module_ module = nb::module_::import_("crossdock.errors");
  classes[0] = nb::object(module.attr("Error")).release().ptr();
  for (int code = 1; code <= kLastCode; ++code) {
    const std::string name(error_name(static_cast<ErrorCode>(code)));
    classes[static_cast<std::size_t>(code)] = nb::object(module.attr(name.c_str())).release().ptr();
  }
  nb::register_exception_translator(translate);
}

}  // namespace crossdock::python
