#include "placement.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "../deferred.h"
#include "../gil.h"
#include "../tensor/queue.h"
#include "../tensor/tensor.h"
#include "../tensor/transfer.h"
#include "../wait.h"
#include "crossdock/core/error.h"
#include "crossdock/device/registry.h"
#include "crossdock/offload/placement.h"
#include "offload/find_placement.h"
#include "selector.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::Tensor;

/// Imports arrays of any library. The tensors are valid as long as this object lives.
class Arrays {
 public:
  Arrays(PyObject* const* objects, Py_ssize_t count) {
    pointers_.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (PyUnicode_Check(objects[i]) != 0 || queue_or_null(objects[i]) != nullptr) {
        throw InvalidArgumentError("argument " + std::to_string(i) +
                                   " is a queue, not an array; pass the queue as queue=");
      }
      if (is_tensor(objects[i])) {
        pointers_.push_back(&tensor_of(objects[i]));
      } else {
        tensor_from_any(objects[i], {}, &others_.emplace_back());
        pointers_.push_back(&others_.back());
      }
    }
  }
  const std::vector<const Tensor*>& pointers() const noexcept { return pointers_; }

 private:
  std::vector<const Tensor*> pointers_;
  std::deque<Tensor> others_;
};

}  // namespace

nb::object placement_of(PyObject* const* arrays, Py_ssize_t count, PyObject* queue) {
  const Arrays all(arrays, count);
  std::optional<device::Queue> named;
  if (given(queue)) named = select_queue(queue);
  const device::DriverRegistry& known = drivers();
  // An array without a queue uses the default queue of its device, which may have to be opened.
  const bool may_open = std::any_of(all.pointers().begin(), all.pointers().end(), [](const Tensor* array) {
    return !array->queue && array->device.type != device::DeviceType::kCpu;
  });
  bool ordered = false;
  const offload::Placement placed = [&] {
    std::optional<GilRelease> release;
    if (may_open) release.emplace();
    return offload::find_placement(all.pointers(), named, known, &ordered);
  }();
  // Without the GIL: see pending_without_lock().
  if (!ordered) without_gil([&] { offload::order_placement(all.pointers(), placed, known, wait_for_event); });
  return placed.queue ? queue_object(*placed.queue) : nb::object();
}

std::optional<Tensor> associated_with(const Tensor& tensor, const device::Queue& queue) {
  const GilRelease release;
  if (!offload::accessible(tensor, queue, drivers())) return std::nullopt;
  return offload::associated(tensor, queue, drivers(), wait_for_event);
}

Tensor collocated(const Tensor& tensor, const device::Queue& queue) {
  const GilRelease release;
  return offload::collocate(tensor, queue, drivers(), wait_for_event, log_here);
}

void bind_placement(nb::module_& module) {
  module.def(
      "accessible",
      [](nb::handle array, nb::handle queue) {
        PyObject* const object = array.ptr();
        const Arrays one(&object, 1);
        const device::Queue on = select_queue(queue);
        const GilRelease release;  // the call may open a device
        return offload::accessible(*one.pointers().front(), on, drivers());
      },
      "array"_a, "queue"_a);
  module.attr("DEFAULT_FILTER") = nb::str(device::kDefaultFilter.data(), device::kDefaultFilter.size());
  module.def(
      "queue_of", [](nb::handle of) { return queue_object(queue_of(of)); }, "of"_a,
      "Returns the queue that an object names, or that an array is on.");
  module.def(
      "first_queue_of",
      [](const nb::args& arrays) {
        std::vector<PyObject*> objects(arrays.size());
        for (std::size_t i = 0; i < objects.size(); ++i) {
          objects[i] = tuple_item(arrays.ptr(), static_cast<Py_ssize_t>(i));
        }
        const Arrays all(objects.data(), static_cast<Py_ssize_t>(objects.size()));
        // Without the GIL: the call may open a device.
        const auto queue = without_gil([&] { return offload::first_queue_of(all.pointers(), drivers()); });
        return queue ? queue_object(*queue) : nb::none();
      },
      "arrays"_a, "Returns the queue of the first array that is on one. None if all are host arrays.");
}

}  // namespace crossdock::python
