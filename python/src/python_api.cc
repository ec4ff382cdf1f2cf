#include "python_api.h"

#include <cstring>
#include <new>

#ifdef Py_LIMITED_API
#include <dlfcn.h>
#endif

namespace crossdock::python {

#ifdef Py_LIMITED_API

namespace {

// CPython's own, looked up by name.
int (*finalizing)() = nullptr;
PyThreadState* (*unchecked_thread_state)() = nullptr;
void (*delete_current)() = nullptr;
PyObject* (*lookup_in_type)(PyTypeObject*, PyObject*) = nullptr;
int (*optional_attribute)(PyObject*, PyObject*, PyObject**) = nullptr;
PyObject* (*context_variable_new)(const char*, PyObject*) = nullptr;
PyObject* (*context_variable_set)(PyObject*, PyObject*) = nullptr;
int (*context_variable_get)(PyObject*, PyObject*, PyObject**) = nullptr;
int (*context_variable_reset)(PyObject*, PyObject*) = nullptr;
int (*freeze)(PyTypeObject*) = nullptr;  ///< Since 3.14; else null.

template <class Function>
bool find(Function** function, const char* name) noexcept {
  *function = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
  return *function != nullptr;
}

/// Looks up a function by either of two names: the second is the one that it had before 3.13.
template <class Function>
bool need(Function** function, const char* name, const char* older = nullptr) noexcept {
  if (find(function, name) || (older != nullptr && find(function, older))) return true;
  PyErr_Format(
      PyExc_ImportError,
      "this build of crossdock is for the stable ABI of Python, and this Python lacks %s, which crossdock also "
      "uses: install a newer crossdock, or build it from its sources for this Python",
      name);
  return false;
}

PyObject* attribute_of(PyTypeObject* type, const char* name) noexcept {
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name);
}

/// Appends a str that is an attribute of the type. Appends nothing if it isn't there.
void append_text(std::string* text, PyObject* from) {
  Py_ssize_t size = 0;
  const char* const utf8 =
      from != nullptr && PyUnicode_Check(from) != 0 ? PyUnicode_AsUTF8AndSize(from, &size) : nullptr;
  if (utf8 == nullptr) {
    PyErr_Clear();
  } else {
    text->append(utf8, static_cast<std::size_t>(size));
  }
  Py_XDECREF(from);
}

}  // namespace

bool look_up_python_functions() noexcept {
  find(&freeze, "PyType_Freeze");
  return need(&finalizing, "Py_IsFinalizing", "_Py_IsFinalizing") &&
         need(&unchecked_thread_state, "PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet") &&
         need(&delete_current, "PyThreadState_DeleteCurrent") && need(&lookup_in_type, "_PyType_Lookup") &&
         need(&optional_attribute, "PyObject_GetOptionalAttr", "_PyObject_LookupAttr") &&
         need(&context_variable_new, "PyContextVar_New") && need(&context_variable_set, "PyContextVar_Set") &&
         need(&context_variable_get, "PyContextVar_Get") && need(&context_variable_reset, "PyContextVar_Reset");
}

bool is_finalizing() noexcept { return finalizing() != 0; }
PyThreadState* current_thread_state() noexcept { return unchecked_thread_state(); }
void delete_current_thread_state() noexcept { delete_current(); }

std::string type_name(PyTypeObject* type) {
  std::string text;
  if (is_immutable(type)) append_text(&text, attribute_of(type, "__module__"));
  if (text == "builtins") text.clear();
  if (!text.empty()) text += '.';
  append_text(&text, PyType_GetName(type));
  return text;
}

bool has_name(PyTypeObject* type, const char* name) noexcept {
  // Most types differ in the last part, which costs less than the whole name.
  const char* const dot = std::strrchr(name, '.');
  PyObject* const last = PyType_GetName(type);
  if (last == nullptr) {
    PyErr_Clear();
    return false;
  }
  const bool same = PyUnicode_CompareWithASCIIString(last, dot != nullptr ? dot + 1 : name) == 0;
  Py_DECREF(last);
  try {
    return same && type_name(type) == name;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

PyTypeObject* base_of(PyTypeObject* type) noexcept {
  return static_cast<PyTypeObject*>(PyType_GetSlot(type, Py_tp_base));
}

PyObject* bases_in_order(PyTypeObject* type) noexcept {
  PyObject* const bases = attribute_of(type, "__mro__");
  if (bases != nullptr && PyTuple_Check(bases) != 0) return bases;
  Py_XDECREF(bases);
  PyErr_Clear();
  return nullptr;
}

bool has_size(PyTypeObject* type, Py_ssize_t size) noexcept {
  const auto is = [type](const char* name, Py_ssize_t expected) {
    PyObject* const number = attribute_of(type, name);
    const bool same = number != nullptr && PyLong_AsSsize_t(number) == expected;
    Py_XDECREF(number);
    PyErr_Clear();
    return same;
  };
  return is("__basicsize__", size) && is("__itemsize__", 0);
}

// The stable ABI shows no version: only what can't change counts as known.
unsigned version_of(PyTypeObject* type) noexcept { return is_immutable(type) ? 1 : 0; }

PyObject* type_attribute(PyTypeObject* type, PyObject* name) noexcept { return lookup_in_type(type, name); }

bool find_attribute(PyObject* object, PyObject* name, PyObject** found) noexcept {
  return optional_attribute(object, name, found) >= 0;
}

void make_immutable(PyTypeObject* type) noexcept {
  if (freeze != nullptr && freeze(type) != 0) PyErr_Clear();
}

PyObject* new_context_variable(const char* name) noexcept { return context_variable_new(name, nullptr); }
PyObject* set_context_variable(PyObject* variable, PyObject* value) noexcept {
  return context_variable_set(variable, value);
}
PyObject* context_variable(PyObject* variable) noexcept {
  PyObject* value = nullptr;
  context_variable_get(variable, Py_None, &value);
  return value;
}
bool reset_context_variable(PyObject* variable, PyObject* token) noexcept {
  return context_variable_reset(variable, token) == 0;
}

#else

bool look_up_python_functions() noexcept { return true; }

std::string type_name(PyTypeObject* type) { return type->tp_name; }

bool has_name(PyTypeObject* type, const char* name) noexcept { return std::strcmp(type->tp_name, name) == 0; }

PyObject* bases_in_order(PyTypeObject* type) noexcept { return Py_XNewRef(type->tp_mro); }

bool has_size(PyTypeObject* type, Py_ssize_t size) noexcept {
  return type->tp_basicsize == size && type->tp_itemsize == 0;
}

void make_immutable(PyTypeObject* type) noexcept {
  type->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Modified(type);
}

#endif

}  // namespace crossdock::python
