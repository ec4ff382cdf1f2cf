#include "manager.h"

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../errors.h"
#include "../tensor/names.h"
#include "../tensor/queue.h"
#include "../tensor/tensor.h"
#include "placement.h"
#include "selector.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

/// crossdock.offload.Package: a default queue, and a context variable for the current queue. The variable's value is
/// None or a PyEntered.
struct PyPackage {
  PyObject ob_base;
  PyObject* name;
  PyObject* variable;
  PyObject* chosen;  ///< The default queue, if it was set; else null.
};

/// The result of current(): a context manager and a decorator.
struct PyScope {
  PyObject ob_base;
  PyPackage* package;
  PyObject* queue;
  /// The variable's token of one entry: resetting the variable costs half as much as setting it again. A scope may be
  /// entered in several tasks at once: an entry stores its token only if there is none yet, and the other entries set
  /// the variable again. Null if there is no such entry.
  PyObject* token;
  PyObject* entered;     ///< The entry of `token`. Held, so that no other entry can get its address.
  std::uint64_t number;  ///< Unique among all scopes. Identifies the scope in its entries.
};

/// A scope that a task has entered. Holds the variable's previous value, so that a scope can end without a token.
/// Neither entries nor scopes are tracked by the garbage collector, which would cost more than all their other work.
/// That is safe, because the context holds the entry, and the entry holds no scope.
struct PyEntered {
  PyObject ob_base;
  std::uint64_t scope;  ///< The number of its scope.
  PyObject* queue;
  PyObject* outer;  ///< The variable's previous value.
};

PyTypeObject* package_type = nullptr;
PyTypeObject* scope_type = nullptr;
PyTypeObject* entered_type = nullptr;
PyPackage* global = nullptr;    ///< The package of crossdock.offload itself.
std::uint64_t scopes_made = 0;  ///< Guarded by the GIL.

PyPackage* package_of(PyObject* object) noexcept { return reinterpret_cast<PyPackage*>(object); }
PyScope* scope_of(PyObject* object) noexcept { return reinterpret_cast<PyScope*>(object); }

/// Returns the variable's value, a new reference, or null with the Python error set.
PyObject* value_of(const PyPackage& package) noexcept {
  PyObject* value = nullptr;
  return PyContextVar_Get(package.variable, Py_None, &value) == 0 ? value : nullptr;
}

/// Returns the entry in a value, or null if the value is no entry. The value can be any object: Python code that finds
/// the variable in a context can set it.
PyEntered* entered_or_null(PyObject* value) noexcept {
  return Py_TYPE(value) == entered_type ? reinterpret_cast<PyEntered*>(value) : nullptr;
}

bool set_value(const PyPackage& package, PyObject* value) noexcept {
  PyObject* const token = PyContextVar_Set(package.variable, value);
  Py_XDECREF(token);
  return token != nullptr;
}

// crossdock.offload.Scope

/// Makes an entry of `scope`. Returns null with the Python error set.
PyEntered* new_entered(std::uint64_t scope, PyObject* queue, PyObject* outer) noexcept {
  PyEntered* const entered = PyObject_New(PyEntered, entered_type);
  if (entered == nullptr) return nullptr;
  entered->scope = scope;
  entered->queue = Py_NewRef(queue);
  entered->outer = Py_NewRef(outer);
  return entered;
}

PyObject* enter(PyObject* self, PyObject* /*unused*/) noexcept {
  PyScope& scope = *scope_of(self);
  PyObject* const outer = value_of(*scope.package);
  if (outer == nullptr) return nullptr;
  PyEntered* const value = new_entered(scope.number, scope.queue, outer);
  Py_DECREF(outer);
  if (value == nullptr) return nullptr;
  PyObject* const token = PyContextVar_Set(scope.package->variable, reinterpret_cast<PyObject*>(value));
  if (token != nullptr && scope.token == nullptr) {
    scope.token = Py_NewRef(token);
    scope.entered = Py_NewRef(reinterpret_cast<PyObject*>(value));
  }
  Py_DECREF(reinterpret_cast<PyObject*>(value));
  if (token == nullptr) return nullptr;
  Py_DECREF(token);
  return Py_NewRef(scope.queue);
}

/// Sets the variable, whose value is `entered`, to its previous value. Returns false with the Python error set.
bool restore(PyScope* scope, const PyEntered& entered) noexcept {
  if (scope->entered == reinterpret_cast<const PyObject*>(&entered)) {
    PyObject* const token = std::exchange(scope->token, nullptr);
    Py_CLEAR(scope->entered);  // the caller also holds it
    const bool reset = PyContextVar_Reset(scope->package->variable, token) == 0;
    Py_DECREF(token);
    if (reset) return true;
    PyErr_Clear();  // the scope was entered in another context, of which this one is a copy
  }
  return set_value(*scope->package, entered.outer);
}

/// Returns `value` without the innermost entry of `scope`. Entries inside it are copied, because other tasks may hold
/// them. Returns null, without a Python error, if there is no entry of `scope`.
PyObject* without(PyObject* value, const PyScope* scope) {
  std::vector<const PyEntered*> within;
  const PyEntered* entered = entered_or_null(value);
  while (entered != nullptr && entered->scope != scope->number) {
    within.push_back(entered);
    entered = entered_or_null(entered->outer);
  }
  if (entered == nullptr) return nullptr;
  nb::object left = nb::borrow(entered->outer);
  for (auto one = within.rbegin(); one != within.rend(); ++one) {
    left = checked(reinterpret_cast<PyObject*>(new_entered((*one)->scope, (*one)->queue, left.ptr())));
  }
  return left.release().ptr();
}

/// Ends a scope that isn't the innermost one: removes it from the list of entries, so that it doesn't stay current
/// forever, and raises RuntimeError.
PyObject* leave_out_of_turn(PyObject* self, PyObject* value) noexcept {
  return guarded([&]() -> PyObject* {
    const nb::object left = nb::steal(without(value, scope_of(self)));
    if (left.is_valid() && !set_value(*scope_of(self)->package, left.ptr())) return nullptr;
    Py_CLEAR(scope_of(self)->token);
    Py_CLEAR(scope_of(self)->entered);
    PyErr_SetString(PyExc_RuntimeError,
                    left.is_valid()
                        ? "a scope of current() ends that isn't the innermost one of this task: scopes end in the "
                          "reverse order (a generator that yields inside one gives its caller the queue); it has ended"
                        : "a scope of current() ends that this task isn't in: scopes end in the task that began them");
    return nullptr;
  });
}

PyObject* leave(PyObject* self, PyObject* const* /*exception*/, Py_ssize_t /*three*/) noexcept {
  PyScope* const scope = scope_of(self);
  PyObject* const value = value_of(*scope->package);
  if (value == nullptr) return nullptr;
  const PyEntered* const entered = entered_or_null(value);
  PyObject* result = nullptr;
  if (entered == nullptr || entered->scope != scope->number) {
    result = leave_out_of_turn(self, value);
  } else if (restore(scope, *entered)) {
    result = Py_NewRef(Py_None);
  }
  Py_DECREF(value);
  return result;
}

/// Implements the decorator. The wrapper is made by Python code.
PyObject* decorate(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
  if (PyTuple_GET_SIZE(arguments) != 1 || keywords != nullptr) {
    PyErr_SetString(PyExc_TypeError, "current(queue) is used as a context manager, or as a decorator of a function");
    return nullptr;
  }
  return guarded([&] {
    const nb::object wrap = nb::module_::import_("crossdock.offload").attr("_decorated");
    return nb::object(wrap(nb::handle(self), nb::handle(PyTuple_GET_ITEM(arguments, 0)))).release().ptr();
  });
}

PyObject* scope_queue(PyObject* self, void*) noexcept { return Py_NewRef(scope_of(self)->queue); }

void drop_scope(PyObject* self) noexcept {
  const PyScope& scope = *scope_of(self);
  Py_DECREF(reinterpret_cast<PyObject*>(scope.package));
  Py_DECREF(scope.queue);
  Py_XDECREF(scope.token);
  Py_XDECREF(scope.entered);
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

void drop_one_entered(PyObject* self) noexcept {
  Py_DECREF(reinterpret_cast<PyEntered*>(self)->queue);
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

void drop_entered(PyObject* self) noexcept {
  PyObject* outer = reinterpret_cast<PyEntered*>(self)->outer;
  drop_one_entered(self);
  // Drops the outer entries in a loop: recursion could overflow the stack.
  while (PyEntered* const entered = Py_REFCNT(outer) == 1 ? entered_or_null(outer) : nullptr) {
    PyObject* const next = std::exchange(entered->outer, Py_NewRef(Py_None));
    Py_DECREF(outer);
    outer = next;
  }
  Py_DECREF(outer);
}

PyType_Slot entered_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(drop_entered)},
    {Py_tp_doc, const_cast<char*>("A scope that a task is in: the value of a package's context variable.")},
    {0, nullptr}};
PyType_Spec entered_spec = {"crossdock.offload.Entered", sizeof(PyEntered), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                            entered_slots};

PyObject* scope_repr(PyObject* self) noexcept {
  const PyScope& scope = *scope_of(self);
  return PyUnicode_FromFormat("<crossdock.offload.Scope of %R: %R>", scope.package->name, scope.queue);
}

PyMethodDef scope_methods[] = {
    {"__enter__", enter, METH_NOARGS, "__enter__($self, /)\n--\n\nMakes the queue current, and gives it."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(leave)), METH_FASTCALL,
     "__exit__($self, /, *exception)\n--\n\nMakes current what was so before."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef scope_attributes[] = {{"queue", scope_queue, nullptr, "The queue.", nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot scope_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(drop_scope)},
    {Py_tp_call, reinterpret_cast<void*>(decorate)},
    {Py_tp_repr, reinterpret_cast<void*>(scope_repr)},
    {Py_tp_methods, scope_methods},
    {Py_tp_getset, scope_attributes},
    {Py_tp_doc,
     const_cast<char*>("A queue that is current for a while: for `with`, and as a decorator of a function.")},
    {0, nullptr}};
PyType_Spec scope_spec = {"crossdock.offload.Scope", sizeof(PyScope), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                          scope_slots};

// crossdock.offload.Package

PyObject* new_package(PyObject* name) noexcept {
  const bool named = PyUnicode_Check(name) != 0 && PyUnicode_GET_LENGTH(name) != 0;
  const char* const text = named ? PyUnicode_AsUTF8(name) : nullptr;
  PyObject* const variable = text != nullptr ? PyContextVar_New(text, nullptr) : nullptr;
  if (variable == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "a package's name is a str that isn't empty");
    return nullptr;
  }
  PyPackage* const package = PyObject_GC_New(PyPackage, package_type);
  if (package == nullptr) {
    Py_DECREF(variable);
    return nullptr;
  }
  package->name = Py_NewRef(name);
  package->variable = variable;
  package->chosen = nullptr;
  PyObject_GC_Track(reinterpret_cast<PyObject*>(package));
  return reinterpret_cast<PyObject*>(package);
}

PyObject* make_package(PyTypeObject* /*type*/, PyObject* arguments, PyObject* keywords) noexcept {
  static const char* const names[] = {"name", nullptr};
  PyObject* name = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "U:Package", const_cast<char**>(names), &name) == 0) {
    return nullptr;
  }
  return new_package(name);
}

/// Returns the queue that a scope or set_default_queue() chose, a borrowed reference. Returns null if none was chosen,
/// or with the Python error set.
PyObject* chosen_in(const PyPackage& package) noexcept {
  PyObject* const value = value_of(package);
  if (value == nullptr) return nullptr;
  const PyEntered* const entered = entered_or_null(value);
  PyObject* const queue = entered == nullptr ? package.chosen : entered->queue;
  Py_DECREF(value);  // the variable still holds it
  return queue;
}

PyObject* current_queue(PyObject* self, PyObject* /*unused*/) noexcept {
  PyObject* const queue = chosen_in(*package_of(self));
  if (queue != nullptr) return Py_NewRef(queue);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return guarded([] { return Py_NewRef(default_queue_object()); });
}

PyObject* default_queue(PyObject* self, void*) noexcept {
  if (PyObject* const queue = package_of(self)->chosen) return Py_NewRef(queue);
  return guarded([] { return Py_NewRef(default_queue_object()); });
}

PyObject* set_default_queue(PyObject* self, PyObject* of) noexcept {
  return guarded([&]() -> PyObject* {
    PyObject* const queue = of == Py_None ? nullptr : select_queue_object(of).release().ptr();
    PyObject* const before = std::exchange(package_of(self)->chosen, queue);
    Py_XDECREF(before);
    Py_RETURN_NONE;
  });
}

PyObject* current(PyObject* self, PyObject* of) noexcept {
  return guarded([&]() -> PyObject* {
    nb::object queue = select_queue_object(of);
    PyScope* const scope = PyObject_New(PyScope, scope_type);
    if (scope == nullptr) return nullptr;
    scope->package = package_of(Py_NewRef(self));
    scope->queue = queue.release().ptr();
    scope->token = nullptr;
    scope->entered = nullptr;
    scope->number = ++scopes_made;
    return reinterpret_cast<PyObject*>(scope);
  });
}

PyObject* place(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) noexcept {
  PyObject* queue = nullptr;
  PyObject* const known[] = {names::queue()};
  PyObject** const out[] = {&queue};
  if (!names::read_keywords("placement", arguments + positional, keywords, known, out)) return nullptr;
  return guarded([&]() -> PyObject* {
    nb::object placed = placement_of(arguments, positional, queue);
    return placed.is_valid() ? placed.release().ptr() : current_queue(self, nullptr);
  });
}

PyObject* package_name(PyObject* self, void*) noexcept { return Py_NewRef(package_of(self)->name); }

PyObject* package_repr(PyObject* self) noexcept {
  return PyUnicode_FromFormat("<crossdock.offload.Package %R>", package_of(self)->name);
}

int clear_package(PyObject* self) noexcept {
  PyPackage& package = *package_of(self);
  Py_CLEAR(package.variable);
  Py_CLEAR(package.chosen);
  Py_CLEAR(package.name);
  return 0;
}

void drop_package(PyObject* self) noexcept {
  PyObject_GC_UnTrack(self);
  clear_package(self);
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

int visit_package(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(package_of(self)->variable);
  return 0;
}

PyMethodDef package_methods[] = {
    {"current", current, METH_O,
     "current($self, queue, /)\n--\n\n"
     "A scope in which this queue is current: `with package.current(\"gpu:1\"):`, or a decorator. queue: whatever "
     "Queue() takes. For the calling task or thread alone; tasks that it starts inherit it, threads don't."},
    {"current_queue", current_queue, METH_NOARGS,
     "current_queue($self, /)\n--\n\nThe innermost scope's queue, else the default one."},
    {"set_default_queue", set_default_queue, METH_O,
     "set_default_queue($self, queue, /)\n--\n\n"
     "The queue that is current where no scope says another, in every thread. None: the first GPU's, else the first "
     "accelerator's, else a CPU's."},
    {"placement", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(place)), METH_FASTCALL | METH_KEYWORDS,
     "placement($self, /, *arrays, queue=None)\n--\n\n"
     "Returns the queue to run on: compute follows data. It is the queue of the arrays, which must all be on the same "
     "one. Host arrays are ignored; if all arrays are host arrays, it is the current queue. With `queue`, it is that "
     "queue, which must reach all arrays. Submits no work. Raises ExecutionPlacementError, which names both sides and "
     "says what to do."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef package_attributes[] = {
    {"name", package_name, nullptr, "The package's name.", nullptr},
    {"default_queue", default_queue, nullptr, "The queue that is current where no scope says another.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
constexpr const char* kPackageDoc =
    "Package(name)\n--\n\n"
    "A package's own current queue: a default and scopes, apart from every other package's and from "
    "crossdock.offload's. "
    "Safe to share between threads.";
PyType_Slot package_slots[] = {{Py_tp_new, reinterpret_cast<void*>(make_package)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(drop_package)},
                               {Py_tp_traverse, reinterpret_cast<void*>(visit_package)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_package)},
                               {Py_tp_repr, reinterpret_cast<void*>(package_repr)},
                               {Py_tp_methods, package_methods},
                               {Py_tp_getset, package_attributes},
                               {Py_tp_doc, const_cast<char*>(kPackageDoc)},
                               {0, nullptr}};
PyType_Spec package_spec = {"crossdock.offload.Package", sizeof(PyPackage), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, package_slots};

}  // namespace

PyObject* chosen_queue() noexcept {
  PyObject* const queue = chosen_in(*global);
  if (queue == nullptr) PyErr_Clear();
  return queue;
}

void bind_offload(nb::module_& module) {
  const nb::object scope = checked(PyType_FromSpec(&scope_spec));
  scope_type = reinterpret_cast<PyTypeObject*>(nb::borrow(scope).release().ptr());
  entered_type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&entered_spec)).release().ptr());
  const nb::object package = checked(PyType_FromSpec(&package_spec));
  package_type = reinterpret_cast<PyTypeObject*>(nb::borrow(package).release().ptr());
  const nb::object own = checked(new_package(nb::str("crossdock.offload").ptr()));
  global = package_of(nb::borrow(own).release().ptr());
  module.attr("Scope") = scope;
  module.attr("Package") = package;
  module.attr("offload") = own;
  bind_placement(module);
}

}  // namespace crossdock::python
