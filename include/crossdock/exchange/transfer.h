#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/core/log.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// Copies between any two places. Chooses the context that copies, the queue, and whether the data goes through the
/// host.
///
/// It goes through the host if the two ends are memory of two drivers or of two SYCL contexts. The copy to the host is
/// then waited for, and reported to `log` at level kInfo; an empty `log` reports nothing.
namespace crossdock::exchange {

/// Waits for an event of a context where there is no other way. May be Context::wait(), or a function that does more,
/// such as handling signals. It may throw: the transfer then ends, while the work continues.
using WaitFunction = std::function<void(const std::shared_ptr<device::Context>&, const device::Event&)>;

/// The default `WaitFunction`: blocks in the driver until the event is over.
CROSSDOCK_EXPORT void wait_in_driver(const std::shared_ptr<device::Context>& context, const device::Event& event);

/// Copies the elements to new writable memory of `target`, in C order. The memory is of this kind; nullopt means the
/// device's usual kind.
///
/// With `queue`, the copy runs there and may still be running on return; the result's event is its end. `queue` belongs
/// to the device of `target`, or to the tensor's device if `target` is the host. Without `queue`, the copy runs on that
/// device's default queue; if the host is at one end, it is complete on return. It is also complete on return if
/// `queue` is a SYCL queue of a context that doesn't reach the tensor, because the tensor's own queue then makes the
/// copy.
///
/// Throws InvalidArgumentError for a queue of another device, and the errors of the registry's context(), copy() and
/// `wait`.
CROSSDOCK_EXPORT array::Tensor transfer(const array::Tensor& from, const device::Device& target,
                                        std::optional<device::MemoryKind> kind, const device::Queue* queue,
                                        const device::DriverRegistry& drivers,
                                        const WaitFunction& wait = wait_in_driver, const LogCallback& log = {});

/// Copies the elements of `from` into `to`'s memory, as copy_into() does.
///
/// Runs on `queue`. If that is null, runs on the queue of `to`, else on that of `from`, else on the device's default
/// queue. The result is `to` with the end of the copy as its event. Without `queue`, and if the host can access the
/// memory at one end, the copy is complete on return. If the host can access `to`, it is then complete also when `wait`
/// has thrown. Throws as copy_into() and transfer().
CROSSDOCK_EXPORT array::Tensor transfer_into(const array::Tensor& to, const array::Tensor& from,
                                             const device::Queue* queue, const device::DriverRegistry& drivers,
                                             const WaitFunction& wait = wait_in_driver, const LogCallback& log = {});

/// Returns the device that the tensor's event belongs to: its queue's, else its own.
CROSSDOCK_EXPORT device::Device device_of_event(const array::Tensor& tensor) noexcept;

/// Waits, by `wait`, until the work on the memory is over, its mask too.
CROSSDOCK_EXPORT void wait_for(const array::Tensor& tensor, const device::DriverRegistry& drivers,
                               const WaitFunction& wait);

/// Returns the tensor without its event and queue, its mask too. The caller is responsible for the order of later
/// accesses. The owner keeps the queue.
CROSSDOCK_EXPORT array::Tensor without_event(array::Tensor tensor);

}  // namespace crossdock::exchange
