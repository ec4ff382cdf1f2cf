#include "crossdock/offload/placement.h"

#include <memory>
#include <utility>

#include "crossdock/exchange/sync.h"

namespace crossdock::offload {
namespace {

using array::Tensor;
using device::Context;
using device::Device;
using device::Queue;

using ContextPtr = std::shared_ptr<Context>;

/// Orders `queue` after an event and returns the event. If the driver of the queue can't, waits for the event and
/// returns an empty one.
device::Event ordered(const ContextPtr& context, const Queue& queue, const ContextPtr& theirs, device::Event event,
                      const exchange::WaitFunction& wait) {
  if (theirs->driver_name() == context->driver_name()) {
    context->order_after(queue, event);
    return event;
  }
  wait(theirs, event);
  return {};
}

}  // namespace

Tensor associated(const Tensor& array, const Queue& queue, const device::DriverRegistry& drivers,
                  const exchange::WaitFunction& wait) {
  Tensor view = array;
  if (view.mask) view.mask = std::make_shared<const Tensor>(associated(*view.mask, queue, drivers, wait));
  if (queue.device() == Device{}) {
    exchange::wait_for(view, drivers, wait);
    view = exchange::without_event(std::move(view));
    view.device = {};
    view.kind = device::MemoryKind::kHost;
    return view;
  }
  if (view.queue && *view.queue == queue) return view;
  const ContextPtr context = drivers.context(queue.device());
  const ContextPtr theirs = drivers.context(exchange::device_of_event(view));
  if (!exchange::is_ready(view.event) && !view.event.awaits()) {
    view.event = ordered(context, queue, theirs, std::move(view.event), wait);
  }
  if (view.queue) {
    // The queue may hold work that the owner put there after the event, or, on an out-of-order queue, work that the
    // event doesn't cover.
    view.event = ordered(context, queue, theirs, theirs->record(*view.queue), wait);
    exchange::keep_queue(&view);
  }
  view.queue = queue;
  return view;
}

Tensor collocate(const Tensor& array, const Queue& queue, const device::DriverRegistry& drivers,
                 const exchange::WaitFunction& wait, const LogCallback& log) {
  if (accessible(array, queue, drivers)) return associated(array, queue, drivers, wait);
  const bool to_host = queue.device() == Device{};
  return exchange::transfer(array, queue.device(), {}, to_host ? nullptr : &queue, drivers, wait, log);
}

}  // namespace crossdock::offload
