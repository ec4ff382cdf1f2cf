#include "manager.h"

#include <utility>

#include "../errors.h"
#include "../tensor/names.h"
#include "../tensor/tensor.h"
#include "object.h"
#include "placement.h"
#include "scope.h"
#include "selector.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::Tensor;

/// crossdock.offload.Package: a default queue, and a context variable for the current queue.
struct Package {
  nb::object variable;
  nb::object chosen{};  ///< The default queue, if it was set; else null.
};

const Package* global = nullptr;  ///< The package of crossdock.offload itself.

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) noexcept {
  static const char* const names[] = {"name", nullptr};
  const char* name = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "s:Package", const_cast<char**>(names), &name) == 0) {
    return nullptr;
  }
  if (*name == '\0') {
    PyErr_SetString(PyExc_TypeError, "a package's name must be a str that isn't empty");
    return nullptr;
  }
  nb::object variable = nb::steal(new_context_variable(name));
  return variable.is_valid() ? new_object(type, Package{std::move(variable)}) : nullptr;
}

/// Returns the queue that a scope or set_default_queue() chose, a borrowed reference. Returns null if none was chosen,
/// or with the Python error set.
inline PyObject* chosen_in(const Package& package) noexcept {
  const nb::object value = value_in(package.variable);
  if (!value.is_valid()) return nullptr;
  const Entered* const entered = entered_or_null(value);
  return entered == nullptr ? package.chosen.ptr() : entered->queue.ptr();  // the variable still holds it
}

PyObject* current_queue(PyObject* self, PyObject* /*unused*/) noexcept {
  PyObject* const queue = chosen_in(value_of<Package>(self));
  if (queue != nullptr) return Py_NewRef(queue);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return guarded([] { return Py_NewRef(default_queue_object()); });
}

PyObject* default_queue(PyObject* self, void* /*unused*/) noexcept {
  if (PyObject* const queue = value_of<Package>(self).chosen.ptr()) return Py_NewRef(queue);
  return guarded([] { return Py_NewRef(default_queue_object()); });
}

PyObject* set_default_queue(PyObject* self, PyObject* of) noexcept {
  return guarded([&] {
    value_of<Package>(self).chosen = of == Py_None ? nb::object() : select_queue_object(of);
    return Py_NewRef(Py_None);
  });
}

PyObject* current(PyObject* self, PyObject* of) noexcept {
  return guarded([&] { return new_scope(value_of<Package>(self).variable, select_queue_object(of)); });
}

PyObject* place(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) noexcept {
  PyObject* queue = nullptr;
  PyObject* const known[] = {names::queue()};
  PyObject** const out[] = {&queue};
  if (!names::read_keywords("placement", arguments + positional, keywords, known, out)) return nullptr;
  return guarded([&] {
    nb::object placed = placement_of(arguments, positional, queue);
    return placed.is_valid() ? placed.release().ptr() : current_queue(self, nullptr);
  });
}

PyObject* own(PyObject* self, PyObject* array) noexcept {
  return guarded([&] {
    Tensor tensor;
    tensor_from_any(array, {}, &tensor);
    PyObject* const made = new_tensor(std::move(tensor));
    if (made != nullptr) reinterpret_cast<PyTensor*>(made)->package = Py_NewRef(self);
    return made;
  });
}

PyObject* name(PyObject* self, void* /*unused*/) noexcept {
  return PyObject_GetAttrString(value_of<Package>(self).variable.ptr(), "name");
}

PyObject* representation(PyObject* self) noexcept {
  const nb::object of = nb::steal(name(self, nullptr));
  return of.is_valid() ? PyUnicode_FromFormat("<crossdock.offload.Package %R>", of.ptr()) : nullptr;
}

PyMethodDef methods[] = {
    {"current", current, METH_O,
     "current($self, queue, /)\n--\n\n"
     "Returns a scope in which this queue is current: `with package.current(\"gpu:1\"):`, or a decorator. It is "
     "current "
     "in the calling task or thread alone; tasks that it starts inherit it, threads don't.\n\n"
     "queue: any argument of Queue().\n\n"
     "Raises the errors of Queue(), such as `NotFoundError`. The queue is chosen by this call, not by the scope's "
     "entry."},
    {"current_queue", current_queue, METH_NOARGS,
     "current_queue($self, /)\n--\n\nReturns the queue of the innermost scope, or else the default queue.\n\n"
     "Raises the error of the driver if the default queue can't be made, such as `SystemError`."},
    {"set_default_queue", set_default_queue, METH_O,
     "set_default_queue($self, queue, /)\n--\n\n"
     "Sets the queue that is current outside of all scopes, in every thread.\n\n"
     "queue: any argument of Queue(). None: the queue of the first GPU, or else of the first accelerator, or else of a "
     "CPU.\n\n"
     "Raises the errors of Queue(), such as `NotFoundError`."},
    {"asarray", own, METH_O,
     "asarray($self, obj, /)\n--\n\n"
     "Returns any array as a Tensor of this package, without a copy: its copy_to(), and that of its views and copies, "
     "goes to the package's current queue if no queue is named.\n\n"
     "obj: anything that crossdock.asarray() takes.\n\n"
     "Raises the errors of crossdock.asarray(), such as `UnsupportedTypeError`."},
    {"placement", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(place)), METH_FASTCALL | METH_KEYWORDS,
     "placement($self, /, *arrays, queue=None)\n--\n\n"
     "Returns the queue to run on: compute follows data. It is ordered after what is pending on the arrays. Raises "
     "ExecutionPlacementError, which names both sides and says what to do.\n\n"
     "arrays: anything that crossdock.asarray() takes. The result is their queue, and they must all be on the same "
     "one. "
     "Host arrays are ignored; if all arrays are host arrays, the result is the current queue.\n"
     "queue: the result, which must then reach all arrays."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {
    {"name", name, nullptr, "The package's name.", nullptr},
    {"default_queue", default_queue, nullptr, "The queue that is current outside of all scopes.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
constexpr const char* kDoc =
    "Package(name)\n--\n\n"
    "A package's own current queue: a default queue and scopes. Other packages, and crossdock.offload itself, have "
    "their own. Thread-safe.\n\n"
    "name: the name of the package, for errors and repr().\n\n"
    "Raises `TypeError` unless `name` is a text that isn't empty, and `ValueError` if it can't be encoded as UTF-8 or "
    "has a NUL character.";
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(deallocate<Package>)},
                       {Py_tp_repr, reinterpret_cast<void*>(representation)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {Py_tp_doc, const_cast<char*>(kDoc)},
                       {0, nullptr}};
PyType_Spec spec = {"crossdock.offload.Package", sizeof(Object<Package>), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

}  // namespace

PyObject* chosen_queue(PyObject* package) noexcept {
  PyObject* const queue = chosen_in(package != nullptr ? value_of<Package>(package) : *global);
  if (queue == nullptr) PyErr_Clear();
  return queue;
}

void bind_offload(nb::module_& module) {
  bind_scope(module);
  const nb::object package = checked(PyType_FromSpec(&spec));
  module.attr("Package") = package;
  nb::object own = package("crossdock.offload");
  module.attr("offload") = own;
  global = &value_of<Package>(own.release().ptr());
  bind_placement(module);
}

}  // namespace crossdock::python
