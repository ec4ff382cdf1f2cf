#include "batch.h"

#include <utility>

#include "crossdock/exchange/batch.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "deferred.h"
#include "gil.h"
#include "tensor/transfer.h"
#include "wait.h"

namespace crossdock::python {
namespace {

using array::RecordBatch;
using array::Tensor;
using device::Device;
using device::MemoryKind;
using device::Queue;

// Throw the failure of work, as ready() does.
bool is_ready(const RecordBatch& batch) { return batch.ready(); }
bool is_ready(const Tensor& tensor) { return !tensor.mask && tensor.ready(); }

}  // namespace

void order_on(const RecordBatch& batch, const Queue& queue) {
  if (queue.device() == Device{} || batch.ready()) return;
  const GilReleaseIfHeld release;
  exchange::order_on(batch, queue, drivers(), wait_for_event);
}

template <class Array>
Array copy_to(Array from, const Device& target, const Queue* queue, std::optional<MemoryKind> kind) {
  const GilReleaseIfHeld release;
  return exchange::transfer(from, target, kind, queue, drivers(), wait_for_event, log_here);
}

template <class Array>
void wait_for(const Array& array) {
  if (is_ready(array)) return;
  const GilReleaseIfHeld release;  // see pending_without_lock()
  exchange::wait_for(array, drivers(), wait_for_event);
}

template <class Array>
Array on_host(Array array) {
  if (array.device == Device{} && is_ready(array)) return array;
  const GilReleaseIfHeld release;
  return exchange::on_host(array, drivers(), wait_for_event, log_here);
}

template Tensor copy_to(Tensor, const Device&, const Queue*, std::optional<MemoryKind>);
template RecordBatch copy_to(RecordBatch, const Device&, const Queue*, std::optional<MemoryKind>);
template void wait_for(const Tensor&);
template void wait_for(const RecordBatch&);
template Tensor on_host(Tensor);
template RecordBatch on_host(RecordBatch);

}  // namespace crossdock::python
