#include "scope.h"

#include <utility>
#include <vector>

#include "../errors.h"
#include "../tensor/tensor.h"

namespace nb = nanobind;

namespace crossdock::python {

PyTypeObject* entered_type = nullptr;

namespace {

/// The result of current(): a context manager and a decorator.
struct Scope {
  nb::object variable;
  nb::object queue;
  std::uint64_t number;  ///< Unique among all scopes. Identifies the scope in its entries.
  /// The variable's token of one entry: resetting the variable costs half as much as setting it again. A scope may be
  /// entered in several tasks at once: an entry stores its token only if there is none yet, and the other entries set
  /// the variable again. Null if there is no such entry.
  nb::object token{};
  nb::object entered{};  ///< The entry of `token`. Held, so that no other entry can get its address.
};

PyTypeObject* scope_type = nullptr;
std::uint64_t scopes_made = 0;  ///< Guarded by the GIL.

bool set_value(const nb::object& variable, const nb::object& value) noexcept {
  return nb::steal(set_context_variable(variable.ptr(), value.ptr())).is_valid();
}

/// Drops the outer entries in a loop: recursion could overflow the stack.
void deallocate_entered(PyObject* self) noexcept {
  nb::object outer = std::move(value_of<Entered>(self).outer);
  deallocate<Entered>(self);
  while (outer.is_valid() && Py_REFCNT(outer.ptr()) == 1 && entered_or_null(outer) != nullptr) {
    outer = std::move(entered_or_null(outer)->outer);
  }
}

PyObject* enter(PyObject* self, PyObject* /*unused*/) noexcept {
  Scope& scope = value_of<Scope>(self);
  nb::object outer = value_in(scope.variable);
  if (!outer.is_valid()) return nullptr;
  nb::object value = nb::steal(new_object(entered_type, Entered{scope.number, scope.queue, std::move(outer)}));
  if (!value.is_valid()) return nullptr;
  nb::object token = nb::steal(set_context_variable(scope.variable.ptr(), value.ptr()));
  if (!token.is_valid()) return nullptr;
  if (!scope.token.is_valid()) {
    scope.token = std::move(token);
    scope.entered = std::move(value);
  }
  return Py_NewRef(scope.queue.ptr());
}

/// Sets the variable, whose value is an entry of the scope, to its previous value. Returns false with the Python error
/// set.
bool restore(Scope& scope, const nb::object& value) noexcept {
  if (scope.entered.is(value)) {
    const nb::object token = std::move(scope.token);
    scope.entered.reset();
    if (reset_context_variable(scope.variable.ptr(), token.ptr())) return true;
    PyErr_Clear();  // the scope was entered in another context, of which this one is a copy
  }
  return set_value(scope.variable, entered_or_null(value)->outer);
}

/// Returns `value` without the innermost entry of `scope`. Entries inside it are copied, because other tasks may hold
/// them. Returns no object if there is no entry of `scope`. Throws nb::python_error.
nb::object without(const nb::object& value, const Scope& scope) {
  std::vector<const Entered*> within;
  const Entered* entered = entered_or_null(value);
  while (entered != nullptr && entered->scope != scope.number) {
    within.push_back(entered);
    entered = entered_or_null(entered->outer);
  }
  if (entered == nullptr) return {};
  nb::object left = entered->outer;
  for (auto one = within.rbegin(); one != within.rend(); ++one) {
    left = checked(new_object(entered_type, Entered{(*one)->scope, (*one)->queue, std::move(left)}));
  }
  return left;
}

/// Ends a scope that isn't the innermost one: removes it from the list of entries, so that it doesn't stay current
/// forever, and raises RuntimeError.
PyObject* leave_out_of_turn(Scope& scope, const nb::object& value) noexcept {
  return guarded([&]() -> PyObject* {
    const nb::object left = without(value, scope);
    if (left.is_valid() && !set_value(scope.variable, left)) return nullptr;
    scope.token.reset();
    scope.entered.reset();
    PyErr_SetString(PyExc_RuntimeError,
                    left.is_valid()
                        ? "this scope of current() ended before a scope inside it: leave scopes in the reverse order, "
                          "and don't yield inside a scope, because the caller would run with its queue"
                        : "this task isn't in this scope of current(): leave a scope in the task that entered it");
    return nullptr;
  });
}

PyObject* leave(PyObject* self, PyObject* const* /*exception*/, Py_ssize_t /*three*/) noexcept {
  Scope& scope = value_of<Scope>(self);
  const nb::object value = value_in(scope.variable);
  if (!value.is_valid()) return nullptr;
  const Entered* const entered = entered_or_null(value);
  if (entered == nullptr || entered->scope != scope.number) return leave_out_of_turn(scope, value);
  return restore(scope, value) ? Py_NewRef(Py_None) : nullptr;
}

/// Implements the decorator. The wrapper is made by Python code.
PyObject* decorate(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
  if (tuple_size(arguments) != 1 || keywords != nullptr) {
    PyErr_SetString(PyExc_TypeError, "current(queue) is used as a context manager, or as a decorator of a function");
    return nullptr;
  }
  return guarded([&] {
    const nb::object wrap = nb::module_::import_("crossdock.offload").attr("_decorated");
    return wrap(nb::handle(self), nb::handle(tuple_item(arguments, 0))).release().ptr();
  });
}

PyObject* queue(PyObject* self, void* /*unused*/) noexcept { return Py_NewRef(value_of<Scope>(self).queue.ptr()); }

PyObject* representation(PyObject* self) noexcept {
  const Scope& scope = value_of<Scope>(self);
  const nb::object name = nb::steal(PyObject_GetAttrString(scope.variable.ptr(), "name"));
  if (!name.is_valid()) return nullptr;
  return PyUnicode_FromFormat("<crossdock.offload.Scope of %R: %R>", name.ptr(), scope.queue.ptr());
}

PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, "__enter__($self, /)\n--\n\nMakes the queue current, and returns it."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(leave)), METH_FASTCALL,
     "__exit__($self, /, *exception)\n--\n\nMakes the previous queue current again."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {{"queue", queue, nullptr, "The queue.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot scope_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate<Scope>)},
    {Py_tp_call, reinterpret_cast<void*>(decorate)},
    {Py_tp_repr, reinterpret_cast<void*>(representation)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, const_cast<char*>("Makes a queue current: in a `with` block, or as a decorator during a call.")},
    {0, nullptr}};
PyType_Slot entered_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate_entered)},
    {Py_tp_doc, const_cast<char*>("A scope that a task is in: the value of a package's context variable.")},
    {0, nullptr}};
constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE;
PyType_Spec scope_spec = {"crossdock.offload.Scope", sizeof(Object<Scope>), 0, kFlags, scope_slots};
PyType_Spec entered_spec = {"crossdock.offload.Entered", sizeof(Object<Entered>), 0, kFlags, entered_slots};

}  // namespace

PyObject* new_scope(nb::object variable, nb::object queue) noexcept {
  return new_object(scope_type, Scope{std::move(variable), std::move(queue), ++scopes_made});
}

void bind_scope(nb::module_& module) {
  nb::object scope = checked(PyType_FromSpec(&scope_spec));
  module.attr("Scope") = scope;
  scope_type = reinterpret_cast<PyTypeObject*>(scope.release().ptr());
  entered_type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&entered_spec)).release().ptr());
}

}  // namespace crossdock::python
