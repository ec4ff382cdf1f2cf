// Methods of crossdock.Tensor that take queues.
#include <nanobind/nanobind.h>

#include <optional>

#include "../deferred.h"
#include "../tensor/queue.h"
#include "../tensor/tensor.h"
#include "../tensor/transfer.h"
#include "manager.h"
#include "placement.h"
#include "selector.h"
#include "usm_type.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {

using array::Tensor;
using device::Queue;

PyObject* usm_type(PyObject* self, void* /*unused*/) noexcept {
  const auto kind = usm_type_of(tensor_of(self));
  if (!kind) Py_RETURN_NONE;
  return PyUnicode_InternFromString(usm_type_name(*kind));
}

void def_queue_methods() {
  def_tensor_method(
      "copy_to",
      [](const TensorObject& self, nb::handle queue, nb::handle usm_type) {
        drain_deferred();
        PyObject* const package = reinterpret_cast<PyTensor*>(self.ptr())->package;
        PyObject* const named = queue.is_none() ? chosen_queue(package) : queue.ptr();
        const Queue on = select_queue(named != nullptr ? named : default_queue_object());
        return derived(self.ptr(), copy_to_queue(*self, on, usm_type_in(usm_type.ptr())));
      },
      nb::arg().none() = nb::none(), nb::kw_only(), "usm_type"_a.none() = nb::none(),
      "Returns a copy for work on a queue. The copy runs on that queue and may still be under way when this "
      "returns.\n\n"
      "queue: any argument of Queue(). None: the current queue of the package that made this tensor "
      "(Package.asarray()), else of crossdock.offload.\n"
      "usm_type: the kind of device memory of the copy: \"device\", \"shared\" or \"host\". None: \"device\", or "
      "\"host\" on the CPU.\n\n"
      "Raises `InvalidArgumentError` for a text that is no filter string and for an unknown usm_type, "
      "`NotFoundError` or `UnsupportedError` if there is no such queue, and `ResourceError` if there isn't enough "
      "memory.");
  def_tensor_method(
      "copy_from",
      [](const TensorObject& self, nb::handle source, nb::handle queue) {
        drain_deferred();
        std::optional<Queue> on = queue_in(queue);
        if (on && on->device() == device::Device{}) on.reset();  // the host's queue orders nothing
        Tensor from;
        tensor_from_any(source.ptr(), {}, &from);
        return derived(self.ptr(), copy_into(*self, from, on ? &*on : nullptr));
      },
      nb::arg().none(), nb::kw_only(), "queue"_a.none() = nb::none(),
      "Copies the elements of an array of the same shape and type into this tensor's memory, which must be writable "
      "and in C order.\n\n"
      "Returns this tensor with the end of the copy as its event: use the result from then on.\n\n"
      "source: an array that asarray() takes. One in C order needs no further memory.\n"
      "queue: the queue on which the copy runs; it may still be under way when this returns. Without a queue, the "
      "copy runs on the queue of this tensor, else on the queue of the source. If one of the two is host memory, it "
      "is then complete when this returns.\n\n"
      "Raises `InvalidArgumentError` for another shape or type, for memory that is read-only, and for a queue of a "
      "third device, `UnsupportedError` if the memory isn't in C order, and `UnsupportedTypeError` for a source that "
      "is no array.");
  def_tensor_method(
      "collocate",
      [](const TensorObject& self, nb::handle other) {
        drain_deferred();
        return derived(self.ptr(), collocated(*self, queue_of(other)));
      },
      nb::arg().none(),
      "Returns the elements for work on a queue. If the queue reaches the memory, this is the same memory, associated "
      "with the queue, and the queue is ordered after the pending work on it. Else it is a copy.\n\n"
      "other: any argument of Queue(), or an array, whose queue is then used.\n\n"
      "Raises `InvalidArgumentError` for an array in host memory, which is on no queue, `UnsupportedTypeError` for "
      "an object that is neither an array nor a queue, and otherwise the errors of copy_to().");
}

}  // namespace crossdock::python
