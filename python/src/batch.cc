#include "batch.h"

#include "crossdock/exchange/batch.h"
#include "crossdock/exchange/sync.h"
#include "gil.h"
#include "tensor/transfer.h"
#include "wait.h"

namespace crossdock::python {
namespace {

using array::RecordBatch;
using device::Device;
using device::Queue;

void wait_here(RecordBatch* batch) {
  if (batch->ready()) return;
  wait_for_event(exchange::context_of_work(*batch, drivers()), batch->pending());
  exchange::mark_ready(batch);
}

}  // namespace

RecordBatch copy_to(const RecordBatch& batch, const Device& target, const Queue* queue) {
  const RecordBatch mine = batch;  // A copy, because other threads may use `batch` once the GIL is released.
  const device::DriverRegistry& all = drivers();
  const GilRelease release;
  return exchange::transfer(mine, target, {}, queue, all, wait_for_event, say);
}

RecordBatch waited_for(const RecordBatch& batch) {
  RecordBatch mine = batch;
  if (mine.ready()) return mine;
  const GilRelease release;
  wait_here(&mine);
  return mine;
}

RecordBatch on_host(const RecordBatch& batch) {
  if (batch.device == Device{} && batch.ready()) return batch;
  const RecordBatch mine = batch;
  const device::DriverRegistry& all = drivers();
  const GilReleaseIfHeld release;
  return exchange::on_host(mine, all, wait_for_event, say);
}

}  // namespace crossdock::python
