// What crossdock.Tensor can do with queues.
#include <nanobind/nanobind.h>

#include <optional>

#include "../deferred.h"
#include "../gil.h"
#include "../tensor/names.h"
#include "../tensor/queue.h"
#include "../tensor/tensor.h"
#include "../tensor/transfer.h"
#include "crossdock/core/error.h"
#include "crossdock/offload/collocate.h"
#include "crossdock/offload/placement.h"
#include "manager.h"
#include "placement.h"
#include "selector.h"
#include "usm_type.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::Tensor;
using device::Queue;

/// Of an array; the current one for arrays of the host.
Queue queue_of_array(PyObject* object) {
  const nb::object placed = placement_of(&object, 1, nullptr);
  if (placed.is_valid()) return *queue_or_null(placed);
  throw InvalidArgumentError("an array of the host is on no queue; name one to collocate with");
}

}  // namespace

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

PyObject* collocate(PyObject* self, PyObject* other) noexcept {
  return guarded([&]() -> PyObject* {
    drain_deferred();
    const Queue* const named = queue_or_null(other);
    const Queue queue = named != nullptr ? *named : queue_of_array(other);
    const Tensor& tensor = tensor_of(self);
    std::optional<Tensor> made;
    {
      const GilRelease release;
      if (offload::accessible(tensor, queue, drivers())) made = offload::associated(tensor, queue, drivers());
    }
    if (!made) made = copy_to_queue(tensor, queue);
    return new_tensor(std::move(*made));
  });
}

}  // namespace crossdock::python
