#include "crossdock/offload/collocate.h"

#include <memory>
#include <utility>

#include "crossdock/exchange/ready.h"

namespace crossdock::offload {
namespace {

using array::Tensor;
using device::Context;
using device::Queue;

/// Orders `queue` after an event and returns it; where the queue's driver can't, waits for it and returns none.
device::Event ordered(Context& context, const Queue& queue, Context& theirs, device::Event event) {
  if (theirs.driver_name() == context.driver_name()) {
    context.order_after(queue, event);
    return event;
  }
  theirs.wait(event);
  return {};
}

}  // namespace

Tensor associated(const Tensor& array, const Queue& queue, const device::DriverRegistry& drivers) {
  Tensor view = array;
  if (view.mask) view.mask = std::make_shared<const Tensor>(associated(*view.mask, queue, drivers));
  if (view.queue && *view.queue == queue) return view;
  if (queue.device() == device::Device{}) {
    if (!exchange::is_ready(view)) {
      exchange::wait_ready(&view, *drivers.context(view.queue ? view.queue->device() : view.device));
    }
    return view;
  }
  const std::shared_ptr<Context> context = drivers.context(queue.device());
  const std::shared_ptr<Context> theirs = drivers.context(view.queue ? view.queue->device() : view.device);
  if (!exchange::is_ready(view) && !view.event.awaits()) {
    view.event = ordered(*context, queue, *theirs, std::move(view.event));
  }
  if (view.queue) {
    // Work that its owner put on its queue after the event, or, on a queue without order, without one.
    view.event = ordered(*context, queue, *theirs, theirs->record(*view.queue));
    exchange::keep_queue(&view);
  }
  view.queue = queue;
  return view;
}

}  // namespace crossdock::offload
