#pragma once

#include <memory>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/core/function.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/memory.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// The order between the work that is pending on memory (device::Memory::pending()) and its next use. The functions
/// take the memory of tensors and of batches; they don't look at a tensor's mask, except where it is said.
namespace crossdock::exchange {

/// Waits for an event of a context where there is no other way. May be Context::wait(), or a function that does more,
/// such as handling signals. It may throw: the caller's operation then ends, while the work continues.
using WaitFunction = std::function<void(const std::shared_ptr<device::Context>&, const device::Event&)>;

/// The default `WaitFunction`: blocks in the driver until the event is over.
CROSSDOCK_EXPORT void wait_in_driver(const std::shared_ptr<device::Context>& context, const device::Event& event);

/// Returns the context that the memory's pending work belongs to: `memory.context` if it is set, else that of the
/// memory's device. Throws as DriverRegistry::context(), and ExportError for a queue that is out of reach.
CROSSDOCK_EXPORT std::shared_ptr<device::Context> context_of_work(const device::Memory& memory,
                                                                  const device::DriverRegistry& drivers);

/// Orders `queue`, a queue of `context`, after everything that is pending on the memory: work put on `queue` from now
/// on may access the memory. An event of memory without a context must belong to the driver of `context`. Doesn't wait,
/// except in the driver for work on a queue of another driver, and as Context::order_after(). If `queue` is in-order
/// and the memory's own, puts at most the order after the memory's event on it. Throws as Memory::pending() and
/// Context::order_after().
CROSSDOCK_EXPORT void order_on(const device::Memory& memory, device::Context& context, const device::Queue& queue);

/// Orders `queue` after everything that is pending on the memory. Waits, by `wait`, for work of another driver than the
/// queue's, and for all work if `queue` is the host's.
CROSSDOCK_EXPORT void order_on(const device::Memory& memory, const device::Queue& queue,
                               const device::DriverRegistry& drivers, const WaitFunction& wait);
/// Does the same for a tensor and its mask.
CROSSDOCK_EXPORT void order_on(const array::Tensor& tensor, const device::Queue& queue,
                               const device::DriverRegistry& drivers, const WaitFunction& wait);

/// Makes the work before `event`, an event of `context`, pending on the memory, besides what is pending already. For
/// work that isn't on the memory's queue. Puts an order on that queue. Makes a new queue the memory's if that queue
/// can't be used on this thread, or if the memory has another event and no queue. Waits, by `wait`, for an event of
/// another device than the memory's own work: an event that is handed on must be one of the memory's device. Host
/// memory, for which every consumer waits, may have an event of any device. Throws the failure that the event carries.
CROSSDOCK_EXPORT void add_work(device::Memory* memory, const std::shared_ptr<device::Context>& context,
                               const device::Event& event, const device::DriverRegistry& drivers,
                               const WaitFunction& wait = wait_in_driver);

/// Blocks the calling thread until everything that is pending on the memory is over; then nothing is pending any more,
/// and the owner keeps the queue (keep_queue()). `context` is that of the work if the memory has no queue. Throws the
/// error of failed work; the memory is then as it was.
CROSSDOCK_EXPORT void wait_ready(device::Memory* memory, device::Context& context);

/// Waits, by `wait`, until everything that is pending on the memory is over. Doesn't change it.
CROSSDOCK_EXPORT void wait_for(const device::Memory& memory, const device::DriverRegistry& drivers,
                               const WaitFunction& wait);
/// Does the same for a tensor and its mask.
CROSSDOCK_EXPORT void wait_for(const array::Tensor& tensor, const device::DriverRegistry& drivers,
                               const WaitFunction& wait);

/// Makes the memory's owner keep the memory's queue, which may own resources that the memory needs. Keeps each queue
/// once.
CROSSDOCK_EXPORT void keep_queue(device::Memory* memory);

/// Makes the memory's owner free it after the work on `queue`, a queue of `context`, as well: the work that is there
/// when the last view is destroyed. Does nothing if it is the memory's queue already. For a caller that makes it the
/// memory's queue (device::Memory::set_queue()). Keeps the memory's queue, too (keep_queue()).
CROSSDOCK_EXPORT void free_after_queue(device::Memory* memory, const std::shared_ptr<device::Context>& context,
                                       const device::Queue& queue);

/// Forgets what is pending: the memory then has neither event nor queue, and the owner keeps the queue. The caller is
/// responsible for the order of later accesses.
CROSSDOCK_EXPORT void forget_work(device::Memory* memory);

/// Makes memory that the host can access (Memory::host_accessible()) ordinary host memory, without a copy. The caller
/// has waited for the work on it.
CROSSDOCK_EXPORT void share_with_host(device::Memory* memory) noexcept;

/// Returns the tensor without its event and queue, its mask too, as forget_work() does.
CROSSDOCK_EXPORT array::Tensor without_event(array::Tensor tensor);

}  // namespace crossdock::exchange
