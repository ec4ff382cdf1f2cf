#include "errors.h"

#include <nanobind/nanobind.h>

#include <cerrno>
#include <exception>
#include <new>
#include <string>
#include <typeinfo>
#include <vector>

#include "crossdock/core/error.h"
#include "text.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

// The classes by error code, with the root class at 0. The references are never dropped.
std::vector<PyObject*> classes;
// The class derived from both ResourceError and MemoryError.
PyObject* out_of_memory = nullptr;

// What nanobind::cast() throws says no more.
constexpr char kNoInstance[] =
    "an object has another type than is needed here, or its class has made it without __init__()";

PyObject* class_of(const Error& error) noexcept {
  if (error.code() == ErrorCode::kResource && error.system_errno() == ENOMEM) return out_of_memory;
  const auto code = static_cast<std::size_t>(error.code());
  return code < classes.size() ? classes[code] : classes[0];
}

/// Sets the attribute `errno` of an OSError. Keeps our message.
void set_errno(PyObject* exception, int number) noexcept {
  PyObject* const value = PyLong_FromLong(number);
  if (value == nullptr || PyObject_SetAttrString(exception, "errno", value) != 0) PyErr_Clear();
  Py_XDECREF(value);
}

void raise(const Error& error) noexcept {
  PyObject* const type = class_of(error);
  set_error(type, error.what());  // replaces bytes that aren't UTF-8: messages quote names and paths
  if (error.system_errno() == 0 || PyErr_ExceptionMatches(PyExc_OSError) == 0) return;
  PyObject* kind = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&kind, &value, &trace);
  PyErr_NormalizeException(&kind, &value, &trace);
  set_errno(value, error.system_errno());
  PyErr_Restore(kind, value, trace);
}

void translate(const std::exception_ptr& pointer, void* /*unused*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    raise(error);
  } catch (const std::bad_cast&) {
    set_error(PyExc_TypeError, kNoInstance);
  }
}

}  // namespace

void set_python_error() noexcept {
  try {
    throw;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::builtin_exception& error) {
    set_error(error.type() == nb::exception_type::type_error    ? PyExc_TypeError
              : error.type() == nb::exception_type::index_error ? PyExc_IndexError
                                                                : PyExc_ValueError,
              error.what());
  } catch (const Error& error) {
    raise(error);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::bad_cast&) {
    set_error(PyExc_TypeError, kNoInstance);
  } catch (const std::exception& error) {
    set_error(PyExc_RuntimeError, error.what());
  }
}

nb::object exception_object(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (...) {
    set_python_error();
  }
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return nb::steal(value);
}

void register_errors(nb::module_& module) {
  const nb::module_ errors = nb::module_::import_("crossdock.errors");
  const std::string root(error_name(ErrorCode{0}));
  classes = {nb::object(errors.attr(root.c_str())).release().ptr()};
  // Codes have no gaps. The first number that is no code has the name of the root class, and ends the loop. If a code
  // has no class, the import fails.
  for (int code = 1;; ++code) {
    const std::string name(error_name(static_cast<ErrorCode>(code)));
    if (name == root) break;
    classes.push_back(nb::object(errors.attr(name.c_str())).release().ptr());
  }
  out_of_memory = nb::object(errors.attr("OutOfMemoryError")).release().ptr();
  nb::list by_code;
  for (PyObject* const one : classes) by_code.append(nb::handle(one));
  module.attr("error_classes") = nb::tuple(by_code);
  nb::register_exception_translator(translate);
}

std::string describe(const nb::python_error& error) {
  std::string text = nb::type_name(error.type()).c_str();
  PyObject* const words = PyObject_Str(error.value().ptr());
  const char* const utf8 = words != nullptr ? PyUnicode_AsUTF8AndSize(words, nullptr) : nullptr;
  if (utf8 != nullptr && *utf8 != '\0') text.append(": ").append(utf8);
  if (utf8 == nullptr) PyErr_Clear();
  Py_XDECREF(words);
  return text;
}

}  // namespace crossdock::python
