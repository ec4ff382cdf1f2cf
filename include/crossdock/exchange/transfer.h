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

/// Copies between any two places: which context makes them, on which queue, and where the way leads through the host.
/// Wherever memory of two drivers, or of two contexts of SYCL, is at the ends, it does; what is on the way is waited
/// for, and `log` (none: nobody) is told, at the level kInfo.
namespace crossdock::exchange {

/// How to wait for an event of a context where there is no other way: Context::wait(), or what does more besides, as
/// answering signals. May throw, and then the transfer ends; the work goes on.
using WaitFunction = std::function<void(const std::shared_ptr<device::Context>&, const device::Event&)>;

/// The default `WaitFunction`: blocks in the driver until the event is over.
CROSSDOCK_EXPORT void wait_in_driver(const std::shared_ptr<device::Context>& context, const device::Event& event);

/// The elements in new memory of `target`, of this kind (nothing: the device's usual one), writable, in C order. On
/// `queue` if there is one, of the device of `target` or, where that is the host, of the tensor's; then the copy may
/// still be under way, and the result's event is its end. Else on that device's default queue, and where the host is at
/// one end it is done when this returns. It is done, too, where a queue of SYCL is in a context that doesn't reach the
/// tensor, and the tensor's own queue had to do it. Throws InvalidArgumentError for a queue of another device, what the
/// registry's context() and copy() throw, and what `wait` does.
CROSSDOCK_EXPORT array::Tensor transfer(const array::Tensor& from, const device::Device& target,
                                        std::optional<device::MemoryKind> kind, const device::Queue* queue,
                                        const device::DriverRegistry& drivers, const WaitFunction& wait = wait_in_driver,
                                        const LogCallback& log = {});

/// The elements of `from` put into `to`'s memory, as copy_into() does it, on `queue`; null: on the queue that `to` is
/// on, else that of `from`, or the device's default one. The result is `to` with the end of the copy as its event;
/// without a queue, and with memory at one end that the host reaches, it is done when this returns; and, if the host
/// reaches `to`, also when `wait` has thrown. Throws as copy_into() and transfer().
CROSSDOCK_EXPORT array::Tensor transfer_into(const array::Tensor& to, const array::Tensor& from,
                                             const device::Queue* queue, const device::DriverRegistry& drivers,
                                             const WaitFunction& wait = wait_in_driver, const LogCallback& log = {});

/// Returns the device that the tensor's event belongs to: its queue's, else its own.
CROSSDOCK_EXPORT device::Device device_of_event(const array::Tensor& tensor) noexcept;

/// Waits, by `wait`, until the work on the memory is over, its mask too.
CROSSDOCK_EXPORT void wait_for(const array::Tensor& tensor, const device::DriverRegistry& drivers, const WaitFunction& wait);

/// Returns the tensor without its event and queue, its mask too. The caller is responsible for the order of later
/// accesses. The owner keeps the queue.
CROSSDOCK_EXPORT array::Tensor without_event(array::Tensor tensor);

}  // namespace crossdock::exchange
