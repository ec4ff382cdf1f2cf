#include "crossdock/offload/placement.h"

#include <memory>
#include <utility>

#include "crossdock/exchange/sync.h"

namespace crossdock::offload {
namespace {

using array::Tensor;
using device::Device;
using device::Queue;

}  // namespace

Tensor associated(const Tensor& array, const Queue& queue, const device::DriverRegistry& drivers,
                  const exchange::WaitFunction& wait) {
  if (queue.device() == Device{}) return exchange::on_host(array, drivers, wait);
  Tensor view = array;
  if (view.mask) view.mask = std::make_shared<const Tensor>(associated(*view.mask, queue, drivers, wait));
  exchange::order_on(view, queue, drivers, wait);
  if (view.queue && *view.queue == queue) return view;
  const auto context = drivers.context(queue);
  exchange::free_after_queue(&view, context, queue);
  view.set_queue(context, queue);
  return view;
}

Tensor collocate(const Tensor& array, const Queue& queue, const device::DriverRegistry& drivers,
                 const exchange::WaitFunction& wait, const LogCallback& log) {
  if (accessible(array, queue, drivers)) return associated(array, queue, drivers, wait);
  const bool to_host = queue.device() == Device{};
  return exchange::transfer(array, queue.device(), {}, to_host ? nullptr : &queue, drivers, wait, log);
}

}  // namespace crossdock::offload
