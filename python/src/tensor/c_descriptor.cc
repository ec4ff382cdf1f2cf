#include "c_descriptor.h"

#include "tensor.h"

namespace nb = nanobind;

namespace crossdock::python {

#ifdef Py_LIMITED_API

// The stable ABI shows no descriptor's function.

PyObject* call_method(PyObject* object, PyObject* method) noexcept { return call_method_named(object, method); }

nb::object attribute(PyObject* object, PyObject* name) { return optional_attribute(object, name); }

#else

namespace {

/// Looks `name` up in the object's class. Returns the descriptor if it is of type `kind` and belongs to a type of the
/// object, else null. No other function reads the fields of a descriptor.
template <class Descriptor>
const Descriptor* descriptor_of(PyObject* object, PyObject* name, PyTypeObject& kind) noexcept {
  PyObject* const found = type_attribute(Py_TYPE(object), name);
  if (found == nullptr || !Py_IS_TYPE(found, &kind)) return nullptr;
  auto* const descriptor = reinterpret_cast<Descriptor*>(found);
  PyTypeObject* const owner = descriptor->d_common.d_type;
  // The first check is for directly derived classes, as torch.Tensor is from its C type: it is faster than a search
  // through all bases.
  const bool fits = Py_TYPE(object)->tp_base == owner || PyObject_TypeCheck(object, owner) != 0;
  return fits ? descriptor : nullptr;
}

}  // namespace

PyObject* call_method(PyObject* object, PyObject* method) noexcept {
  if (const auto* found = descriptor_of<PyMethodDescrObject>(object, method, PyMethodDescr_Type)) {
    const PyMethodDef& function = *found->d_method;
    if (function.ml_flags == METH_NOARGS) return function.ml_meth(object, nullptr);
  }
  return call_method_named(object, method);
}

nb::object attribute(PyObject* object, PyObject* name) {
  if (const auto* found = descriptor_of<PyGetSetDescrObject>(object, name, PyGetSetDescr_Type)) {
    const PyGetSetDef& pair = *found->d_getset;
    if (pair.get != nullptr) return checked(pair.get(object, pair.closure));
  }
  return optional_attribute(object, name);
}

#endif

PyTypeObject* c_class_of(nb::handle object, const char* name) noexcept {
  for (PyTypeObject* type = Py_TYPE(object.ptr()); type != nullptr; type = base_of(type)) {
    if (is_immutable(type) && has_name(type, name)) return type;
  }
  return nullptr;
}

}  // namespace crossdock::python
