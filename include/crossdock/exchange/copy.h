#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

/// Explicit copies: the only functions of this layer whose cost grows with the size of the data.
namespace crossdock::exchange {

/// Allocates a tensor in C order. The memory is not zeroed.
///
/// Work on `queue` may use the memory; work on other queues must be ordered after the result's event, which stands for
/// the allocation. When the tensor's last view is destroyed, the memory is freed after the work that is on `queue` at
/// that time.
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

/// Copies the elements of `from`, and its mask, to new writable memory of `to`. The result is in C order.
///
/// `executor` is the copy executor: the target's context, or the source's if the target is the host. It copies on
/// `queue`, which is one of its own queues. That queue is first ordered after the tensor's event, which must belong to
/// `executor`'s driver; call wait_ready() first for events of other drivers. The result's event is the end of the copy.
/// The source's memory and the target's are kept until then. When the target's last view is destroyed, its memory is
/// freed after the work that is on `queue` at that time. Waits only in the cases named below.
///
/// Host memory with gaps is packed first. On a device, each run of elements without a gap is one driver call, because
/// drivers here have no kernels. A source of more than 1,024 runs is copied through the host, together with all bytes
/// between its elements, and is waited for. Throws the errors of the context's functions, after waiting for the work
/// that was started.
///
/// The tensor's own queue is ordered after the copy, so that later work of its producer is too. If that queue belongs
/// to another device than `executor`'s, this needs `producer`, the context of that device. If the tensor's queue is
/// bound to another thread, the copy is waited for. `source` is the context of the source's device; it is needed for
/// more than 1,024 runs if neither end is the host.
CROSSDOCK_EXPORT array::Tensor copy(const array::Tensor& from, const std::shared_ptr<device::Context>& to,
                                    device::MemoryKind kind, const std::shared_ptr<device::Context>& executor,
                                    const device::Queue& queue,
                                    const std::shared_ptr<device::Context>& producer = nullptr,
                                    const std::shared_ptr<device::Context>& source = nullptr);

/// Copies the elements of `from` into `to`. Both have the same type and shape, and neither has a mask. `to` is
/// writable, in C order and without gaps.
///
/// The copy starts after pending work on both tensors, and after the work that is on the target's queue now. That queue
/// is ordered after earlier copies that read the memory through this tensor. The caller must wait for readers of the
/// same memory through another tensor with a queue of its own, or through a tensor without a queue.
///
/// The result is `to`, with the end of the copy as its event, on `queue`. The memory of both is kept until then, and
/// the queues of both tensors are ordered after the copy. `executor`, `queue`, `producer` and `source` are as in
/// copy(). `owner` is for the target's queue what `producer` is for the source's: the context of its device. If
/// `executor` is the host's own context, both tensors must be host memory without pending work, and the copy is
/// complete on return.
///
/// Throws InvalidArgumentError for tensors that overlap or differ in type or shape and for a read-only target,
/// UnsupportedError for a target with gaps or in another order, for masks and for memory without addresses, and
/// otherwise as copy().
CROSSDOCK_EXPORT array::Tensor copy_into(const array::Tensor& to, const array::Tensor& from,
                                         const std::shared_ptr<device::Context>& executor, const device::Queue& queue,
                                         const std::shared_ptr<device::Context>& owner = nullptr,
                                         const std::shared_ptr<device::Context>& producer = nullptr,
                                         const std::shared_ptr<device::Context>& source = nullptr);

/// Copies the elements of `from`, of any strides, to `to` in C order. Both are host memory that may be accessed now.
/// `to` has room for from.nbytes() bytes.
CROSSDOCK_EXPORT void pack(const array::Tensor& from, void* to) noexcept;

}  // namespace crossdock::exchange
