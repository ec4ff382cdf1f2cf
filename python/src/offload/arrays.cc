// Methods of crossdock.Tensor that take queues.
#include <nanobind/nanobind.h>

#include <optional>

#include "../deferred.h"
#include "../tensor/names.h"
#include "../tensor/queue.h"
#include "../tensor/tensor.h"
#include "../tensor/transfer.h"
#include "manager.h"
#include "placement.h"
#include "selector.h"
#include "usm_type.h"

namespace crossdock::python {

using array::Tensor;
using device::Queue;

PyObject* usm_type(PyObject* self, void* /*unused*/) noexcept {
  const auto kind = usm_type_of(tensor_of(self));
  if (!kind) Py_RETURN_NONE;
  return PyUnicode_InternFromString(usm_type_name(*kind));
}

PyObject* copy_to_method(PyObject* self, PyObject* const* arguments, Py_ssize_t positional,
                         PyObject* keywords) noexcept {
  PyObject* usm = nullptr;
  PyObject* const known[] = {names::usm_type()};
  PyObject** const out[] = {&usm};
  if (positional > 1) {
    PyErr_SetString(PyExc_TypeError, "copy_to() takes a queue, and usm_type as keyword");
    return nullptr;
  }
  if (!names::read_keywords("copy_to", arguments + positional, keywords, known, out)) return nullptr;
  return guarded([&] {
    drain_deferred();
    PyObject* const named = positional == 1 && given(arguments[0]) ? arguments[0] : chosen_queue();
    const Queue queue = select_queue(named != nullptr ? named : default_queue_object());
    return new_tensor(copy_to_queue(tensor_of(self), queue, usm_type_in(usm)));
  });
}

PyObject* copy_from_method(PyObject* self, PyObject* const* arguments, Py_ssize_t positional,
                           PyObject* keywords) noexcept {
  PyObject* named = nullptr;
  PyObject* const known[] = {names::queue()};
  PyObject** const out[] = {&named};
  if (positional != 1) {
    PyErr_SetString(PyExc_TypeError, "copy_from() takes an array, and queue as keyword");
    return nullptr;
  }
  if (!names::read_keywords("copy_from", arguments + positional, keywords, known, out)) return nullptr;
  return guarded([&] {
    drain_deferred();
    std::optional<Queue> queue = queue_in(named);
    if (queue && queue->device() == device::Device{}) queue.reset();  // the host's queue orders nothing
    Tensor source;
    tensor_from_any(arguments[0], {}, &source);
    return new_tensor(copy_into(tensor_of(self), source, queue ? &*queue : nullptr));
  });
}

PyObject* collocate(PyObject* self, PyObject* other) noexcept {
  return guarded([&]() -> PyObject* {
    drain_deferred();
    const Queue queue = queue_of(other);
    return new_tensor(collocated(tensor_of(self), queue));
  });
}

}  // namespace crossdock::python
