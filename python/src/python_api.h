#pragma once

#include <Python.h>

#include <string>

#include "core/text.h"

/// CPython's functions that its stable ABI lacks, or has in another form. Here, in c_descriptor.cc and in
/// datetime_objects.cc alone is asked which of the two kinds of modules is being built:
/// - for one version of Python: these are CPython's own functions and macros.
/// - by the stable ABI (Py_LIMITED_API), for that version and later ones: these are slower functions of the stable ABI.
///   Where it has none, CPython's function is looked up by name when the module is imported.
///
/// They need the GIL if nothing else is said, and don't throw if nothing else is said.
namespace crossdock::python {

/// Looks up the functions that the stable ABI lacks. Returns false with ImportError set if Python has one no more,
/// which ends the import. Called before all others.
bool look_up_python_functions() noexcept;

/// Returns the name of a type as errors show it: with the module for types of C extensions, without it for classes made
/// by Python code and for built-in types. Throws std::bad_alloc.
std::string type_name(PyTypeObject* type);
/// The same for the text of an error: a class may have any name.
inline std::string type_name_of(PyObject* object) { return excerpt(type_name(Py_TYPE(object))); }
/// Returns true if type_name() returns this name.
bool has_name(PyTypeObject* type, const char* name) noexcept;
/// Returns a tuple of the type and all of its bases, in the order of lookups, a new reference. Returns null, without an
/// error, for a class that is being made.
PyObject* bases_in_order(PyTypeObject* type) noexcept;
/// Returns true if instances have this size in bytes, and no items.
bool has_size(PyTypeObject* type, Py_ssize_t size) noexcept;
/// Makes a type immutable, to which everything was added. By the stable ABI, Python can since 3.14; before, the type
/// stays as it is.
void make_immutable(PyTypeObject* type) noexcept;
/// Returns true for an immutable class, of a C extension or of Python itself: Python code can't have made it and can't
/// change it.
inline bool is_immutable(PyTypeObject* type) noexcept {
  return (PyType_GetFlags(type) & Py_TPFLAGS_IMMUTABLETYPE) != 0;
}

/// Calls `object.name()`. Returns a new reference, or null with the Python error set.
inline PyObject* call_method_named(PyObject* object, PyObject* name) noexcept {
  return PyObject_VectorcallMethod(name, &object, 1, nullptr);
}

// Declared for both kinds, and defined here or in python_api.cc.

/// Returns true once the interpreter has begun to end. Needs no GIL.
bool is_finalizing() noexcept;
/// Returns the thread state of the thread that holds the GIL; null if none does. Needs no GIL.
PyThreadState* current_thread_state() noexcept;
/// Destroys the thread state of the calling thread, which was cleared, and releases the GIL.
void delete_current_thread_state() noexcept;
/// Returns the first base class, a borrowed reference; null for `object`.
PyTypeObject* base_of(PyTypeObject* type) noexcept;
/// Returns a number that changes when an attribute of the type or of a base does. Returns 0 if that can't be seen.
unsigned version_of(PyTypeObject* type) noexcept;
/// Returns what is in the dictionary of the type or of a base, a borrowed reference. Returns null, without an error, if
/// there is none. Calls no code of a metaclass or a descriptor.
PyObject* type_attribute(PyTypeObject* type, PyObject* name) noexcept;
/// Stores a new reference to the attribute in `*found`; null if there is none, which costs no exception. Returns false
/// with the Python error set if the lookup raises another error than AttributeError.
bool find_attribute(PyObject* object, PyObject* name, PyObject** found) noexcept;

/// Makes a context variable without a default. Returns a new reference, or null with the Python error set.
PyObject* new_context_variable(const char* name) noexcept;
/// Sets the variable. Returns its token, a new reference, or null with the Python error set.
PyObject* set_context_variable(PyObject* variable, PyObject* value) noexcept;
/// Returns the value, None if the variable has none here: a new reference, or null with the Python error set.
PyObject* context_variable(PyObject* variable) noexcept;
/// Sets the variable to what it was before the token. Returns false with the Python error set, for example if the token
/// was made in another context.
bool reset_context_variable(PyObject* variable, PyObject* token) noexcept;

// Of an object that is known to be a tuple or a list, with an index that is known to be in range. The items are
// borrowed references. The setters are for a new object that has nothing there yet, and take the reference over.

#ifdef Py_LIMITED_API

inline Py_ssize_t tuple_size(PyObject* tuple) noexcept { return PyTuple_Size(tuple); }
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t index) noexcept { return PyTuple_GetItem(tuple, index); }
inline void set_tuple_item(PyObject* tuple, Py_ssize_t index, PyObject* item) noexcept {
  PyTuple_SetItem(tuple, index, item);
}
inline void set_list_item(PyObject* list, Py_ssize_t index, PyObject* item) noexcept {
  PyList_SetItem(list, index, item);
}

#else

inline Py_ssize_t tuple_size(PyObject* tuple) noexcept { return PyTuple_GET_SIZE(tuple); }
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t index) noexcept { return PyTuple_GET_ITEM(tuple, index); }
inline void set_tuple_item(PyObject* tuple, Py_ssize_t index, PyObject* item) noexcept {
  PyTuple_SET_ITEM(tuple, index, item);
}
inline void set_list_item(PyObject* list, Py_ssize_t index, PyObject* item) noexcept {
  PyList_SET_ITEM(list, index, item);
}

inline bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

inline PyThreadState* current_thread_state() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_GetUnchecked();
#else
  return _PyThreadState_UncheckedGet();
#endif
}

inline void delete_current_thread_state() noexcept { PyThreadState_DeleteCurrent(); }
inline PyTypeObject* base_of(PyTypeObject* type) noexcept { return type->tp_base; }
inline unsigned version_of(PyTypeObject* type) noexcept { return type->tp_version_tag; }
inline PyObject* type_attribute(PyTypeObject* type, PyObject* name) noexcept { return _PyType_Lookup(type, name); }

inline bool find_attribute(PyObject* object, PyObject* name, PyObject** found) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return PyObject_GetOptionalAttr(object, name, found) >= 0;
#else
  return _PyObject_LookupAttr(object, name, found) >= 0;
#endif
}

inline PyObject* new_context_variable(const char* name) noexcept { return PyContextVar_New(name, nullptr); }
inline PyObject* set_context_variable(PyObject* variable, PyObject* value) noexcept {
  return PyContextVar_Set(variable, value);
}
inline PyObject* context_variable(PyObject* variable) noexcept {
  PyObject* value = nullptr;
  PyContextVar_Get(variable, Py_None, &value);
  return value;
}
inline bool reset_context_variable(PyObject* variable, PyObject* token) noexcept {
  return PyContextVar_Reset(variable, token) == 0;
}

#endif

}  // namespace crossdock::python
