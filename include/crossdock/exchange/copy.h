#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

/// Copies on purpose: the one thing here that costs what the data weighs.
namespace crossdock::exchange {

/// New memory in C order, not zeroed, to be used by work on `queue`, or after the event that stands for its allocation.
/// When the tensor's last view goes, it is freed after the work that is on `queue` then.
///
/// Here and below: for a queue that is bound to the calling thread (Queue::thread_bound()) a new one stands in, which
/// is the tensor's and comes after the work that is on the thread's now, as the thread's comes after what is done here.
/// Memory that goes on that thread is freed after the work on both. Throws InvalidDataError for extents that make
/// no sense, and what Context::allocate() throws.
CROSSDOCK_EXPORT array::Tensor empty(const array::ElementType& type, std::span<const std::int64_t> shape,
                                     const std::shared_ptr<device::Context>& context, device::MemoryKind kind,
                                     const device::Queue& queue);

/// The elements of `from` in new memory of `to`, writable, its mask too. `executor` does it on `queue`, which is one of
/// its own: the context of the one of the two that isn't the host, or of the target's if neither is. The queue is
/// ordered after the tensor's event first, which is one of `executor`'s driver (others are waited for before:
/// wait_ready()). The result's event is the end of the copy. The source's memory is kept until then, and so is the
/// target's: it is freed after the work that is on `queue` when its last view goes. Waits only as said below.
///
/// The result is in C order. What lies in host memory with gaps is packed first; on a device each run of elements
/// without a gap is a driver call, and a source of more than 1,024 runs goes by way of the host with all that lies
/// between its elements, and is waited for: drivers here have no kernels. Throws what the context's verbs throw; what
/// started then is waited for.
///
/// The tensor's own queue is ordered after the copy, so that its producer's work that comes later is. `producer` is
/// needed for that where this queue is of another device than `executor`: its context. For a queue that is bound to
/// another thread the copy is waited for. `source` is the context of the source's device: needed for more than 1,024
/// runs where neither end is the host.
CROSSDOCK_EXPORT array::Tensor copy(const array::Tensor& from, const std::shared_ptr<device::Context>& to,
                                    device::MemoryKind kind, const std::shared_ptr<device::Context>& executor,
                                    const device::Queue& queue,
                                    const std::shared_ptr<device::Context>& producer = nullptr,
                                    const std::shared_ptr<device::Context>& source = nullptr);

/// The elements of `from` put into `to`, of the same type and shape, which may be written, in C order without gaps, and
/// without a mask as `from` is. Work on both that isn't done comes first, and what the target's queue has to do now: it
/// is ordered after copies that still read there by this tensor; who reads by another association of the same memory,
/// or of a tensor on no queue, is the caller's to wait for. The result is `to` with the end of the copy as its event,
/// on `queue`; memory of both is kept until then, and the queues that they are on are ordered after it. `executor`,
/// `queue`, `producer` and `source` as above; `owner` is to the target's queue what `producer` is to the source's. With
/// the host's own `executor` both are memory of the host on which nothing is pending, and it is done when this returns.
/// Throws InvalidArgumentError for tensors that don't fit or overlap, UnsupportedError for targets as said, and as
/// copy().
CROSSDOCK_EXPORT array::Tensor copy_into(const array::Tensor& to, const array::Tensor& from,
                                         const std::shared_ptr<device::Context>& executor, const device::Queue& queue,
                                         const std::shared_ptr<device::Context>& owner = nullptr,
                                         const std::shared_ptr<device::Context>& producer = nullptr,
                                         const std::shared_ptr<device::Context>& source = nullptr);

/// Copies the elements of `from`, of any strides, to `to` in C order: host memory both, which may be read and written
/// now. `to` has from.nbytes() bytes.
CROSSDOCK_EXPORT void pack(const array::Tensor& from, void* to) noexcept;

}  // namespace crossdock::exchange
