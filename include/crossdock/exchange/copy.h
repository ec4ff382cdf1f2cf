#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/core/log.h"
#include "crossdock/device/device_arena.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/sync.h"

/// Explicit copies: the only functions of this layer whose cost grows with the size of the data.
namespace crossdock::exchange {

/// Allocates a tensor in C order. The memory is not zeroed.
///
/// Work on `queue` may use the memory; work on other queues must be ordered after what is pending on the result, which
/// includes the allocation. When the tensor's last view is destroyed, the memory is freed after the work that is on
/// `queue` at that time.
///
/// Thread-bound queues, here and below: if `queue` is bound to the calling thread (Queue::thread_bound()), a new queue
/// takes its place and becomes the tensor's queue. The new queue is ordered after the work that is on `queue` now, and
/// `queue` is ordered after the work that is started here. Memory that is released on that thread is freed after the
/// work on both queues.
///
/// Throws InvalidDataError for invalid extents, and throws as Context::allocate().
CROSSDOCK_EXPORT array::Tensor empty(const array::ElementType& type, std::span<const std::int64_t> shape,
                                     const std::shared_ptr<device::Context>& context, device::MemoryKind kind,
                                     const device::Queue& queue);
/// Allocates it in an arena, for a table that will be published. `queue` is one of the arena's context.
CROSSDOCK_EXPORT array::Tensor empty(const array::ElementType& type, std::span<const std::int64_t> shape,
                                     const std::shared_ptr<device::DeviceArena>& arena, const device::Queue& queue);

/// A copy: where it puts the data, and what makes it.
struct CopyPlan {
  std::shared_ptr<device::Context> to;  ///< Allocates the new memory.
  device::MemoryKind kind;              ///< Of the new memory.
  /// Makes the copy: the target's context, or the source's if the target is the host.
  std::shared_ptr<device::Context> executor;
  device::Queue queue;  ///< The copy runs on it. It is one of the executor's.
  /// The context of the source's device. Needed only for tensors of more than 1,024 runs (see copy()), if neither end
  /// is the host.
  std::shared_ptr<device::Context> source{};
};

/// Copies the elements of `from`, and its mask, to new writable memory. The result is in C order.
///
/// The plan's queue is first ordered after what is pending on the tensor (order_on()). An event without a queue must
/// belong to the executor's driver; call wait_ready() first for events of other drivers. The result's event is the end
/// of the copy. The source's memory and the target's are kept until then. When the target's last view is destroyed, its
/// memory is freed after the work that is on the queue at that time. Waits only in the cases named below.
///
/// Host memory with gaps is packed first. On a device, each run of elements without a gap is one driver call, because
/// drivers here have no kernels. A source of more than 1,024 runs is copied through the host, together with all bytes
/// between its elements, and is waited for. Throws the errors of the context's functions, after waiting for the work
/// that was started.
///
/// The tensor's own queue is ordered after the copy, so that later work of its producer is too. If that queue is bound
/// to another thread, or belongs to another driver, the copy is waited for.
CROSSDOCK_EXPORT array::Tensor copy(const array::Tensor& from, const CopyPlan& plan);

/// Copies the elements of `from` into `to`. Both have the same type and shape, and neither has a mask. `to` is
/// writable, in C order and without gaps.
///
/// The copy starts after what is pending on both tensors. The target's queue is ordered after earlier copies that read
/// the memory through this tensor. The caller must wait for readers of the same memory through another tensor with a
/// queue of its own, or through a tensor without a queue.
///
/// The result is `to`, with the end of the copy as its event, on the plan's queue. The memory of both is kept until
/// then, and the queues of both tensors are ordered after the copy. Nothing is allocated by the plan's `to`. If the
/// executor is the host's own context, both tensors must be host memory without pending work, and the copy is complete
/// on return.
///
/// Throws InvalidArgumentError for tensors that overlap or differ in type or shape and for a read-only target,
/// UnsupportedError for a target with gaps or in another order, for masks and for memory without addresses, and
/// otherwise as copy().
CROSSDOCK_EXPORT array::Tensor copy_into(const array::Tensor& to, const array::Tensor& from, const CopyPlan& plan);

/// Copies the elements of `from`, of any strides, to `to` in C order. Both are host memory that may be accessed now.
/// `to` has room for from.nbytes() bytes.
CROSSDOCK_EXPORT void pack(const array::Tensor& from, void* to) noexcept;

// Copies between any two places. Chooses the context that copies, the queue, and whether the data goes through the
// host.
//
// It goes through the host if the two ends are memory of two drivers or of two native contexts. The copy to the host is
// then waited for, and reported to `log` at level kInfo; an empty `log` reports nothing.

/// Copies the elements to new writable memory of `target`, in C order. The memory is of this kind; nullopt means the
/// device's usual kind.
///
/// With `queue`, the copy runs there and may still be running on return; the result's event is its end. `queue` belongs
/// to the device of `target`, or to the tensor's device if `target` is the host. Without `queue`, the copy runs on that
/// device's default queue; if the host is at one end, it is complete on return. It is also complete on return if
/// `queue` is in a native context that doesn't reach the tensor, because a queue of the tensor's context then makes the
/// copy.
///
/// Throws InvalidArgumentError for a queue of another device, and the errors of the registry's context(), copy() and
/// `wait`.
CROSSDOCK_EXPORT array::Tensor transfer(const array::Tensor& from, const device::Device& target,
                                        std::optional<device::MemoryKind> kind, const device::Queue* queue,
                                        const device::DriverRegistry& drivers,
                                        const WaitFunction& wait = wait_in_driver, const LogCallback& log = {});

/// Returns the tensor in memory of the host, with nothing pending. Memory that the host can access (pinned, managed,
/// and SYCL's host and shared memory) is shared, after a wait for what is pending on it; other memory is copied as
/// transfer() does. Throws as transfer().
CROSSDOCK_EXPORT array::Tensor on_host(const array::Tensor& from, const device::DriverRegistry& drivers,
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

}  // namespace crossdock::exchange
