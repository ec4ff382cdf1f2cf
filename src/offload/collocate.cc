#include "crossdock/offload/collocate.h"

#include <memory>
#include <utility>

#include "crossdock/exchange/ready.h"

namespace crossdock::offload {
namespace {

using array::Tensor;
using device::Context;
using device::Queue;

/// Orders `queue` after an event, or waits for that where its driver can't.
void order(Context& context, const Queue& queue, Context& theirs, const device::Event& event) {
  if (theirs.driver_name() == context.driver_name()) {
    context.order_after(queue, event);
  } else {
    theirs.wait(event);
  }
}

}  // namespace

Tensor associated(const Tensor& array, const Queue& queue, const device::DriverRegistry& drivers) {
  Tensor view = array;
  if (view.mask) view.mask = std::make_shared<const Tensor>(associated(*view.mask, queue, drivers));
  if (view.queue && *view.queue == queue) return view;
  const std::shared_ptr<Context> context = drivers.context(queue.device());
  const std::shared_ptr<Context> theirs = drivers.context(view.queue ? view.queue->device() : view.device);
  if (!exchange::is_ready(view) && !view.event.awaits()) order(*context, queue, *theirs, view.event);
  if (view.queue) {
    // Work that its owner put on its queue after the event, or, on a queue without order, without one.
    view.event = theirs->record(*view.queue);
    order(*context, queue, *theirs, view.event);
    // The queue that it was on may own what the memory needs.
    using Both = std::pair<std::shared_ptr<const void>, Queue>;
    view.owner = std::make_shared<const Both>(std::move(view.owner), *view.queue);
  }
  view.queue = queue;
  return view;
}

}  // namespace crossdock::offload
