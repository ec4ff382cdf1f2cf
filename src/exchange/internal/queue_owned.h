#pragma once

#include <memory>

#include "crossdock/device/device.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/memory.h"
#include "crossdock/device/queue.h"

namespace crossdock::exchange {

/// The queue on which memory is freed. It is `asked` itself, or, if `asked` is bound to the calling thread, a new queue
/// of the same context that is ordered after the work on `asked` now. The reason: any thread may drop the last owner,
/// and on another thread the handle of a thread-bound queue means another queue.
class OwningQueue {
 public:
  OwningQueue(const std::shared_ptr<device::Context>& context, const device::Queue& asked);

  const device::Queue& queue() const noexcept { return queue_; }
  const device::Queue& asked() const noexcept { return asked_; }
  /// Orders `asked` after `event`, an event of queue(): the caller continues on `asked`.
  void order_caller_after(const device::Event& event) const;
  /// Orders queue() after the work on `asked` now, if the calling thread is the one that `asked` is bound to.
  void order_after_caller() const;

 private:
  std::shared_ptr<device::Context> context_;
  device::Queue asked_;
  device::Queue queue_;
};

/// Makes an owner that frees `buffer` on `queue`, after the work that is on it at that time, without blocking. If the
/// driver refuses to free, waits for the queue; if that fails too, leaks the memory. `context` is the queue's. The
/// memory may be of another device, or the host's.
std::shared_ptr<const void> owned_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context,
                                           const OwningQueue& queue);

/// Drops the buffer's owner on `queue`, after the work that is on it now, as the owner of owned_on_queue() does.
void free_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context, const OwningQueue& queue) noexcept;

/// Orders the memory's own queue after a copy that `executor` makes on `queue`, whose end is `copied`: the producer may
/// continue its work there, or free the memory, and that must not happen during the copy. Waits for the copy if the
/// memory's queue can't be ordered here.
void order_producer_after(const device::Memory& from, const device::Event& copied, device::Context& executor,
                          const device::Queue& queue);

/// Waits for all work on the queue. False if the driver can't record an event on it.
bool wait_for_all(device::Context& context, const device::Queue& queue) noexcept;
/// Waits for all work on the queue; for the event `copied` alone if the driver can't record an event there.
void wait_for_started(device::Context& context, const device::Queue& queue, const device::Event& copied) noexcept;

/// Calls `start(&copied)`, a function that starts work on `queue`, sets `copied` to its end, and orders the memory's
/// producer after that. Returns `copied`. If the function throws, waits for the work first: the producer doesn't know
/// of it, and may change or free the memory next.
template <typename Start>
device::Event start_work(device::Context& context, const device::Queue& queue, Start start) {
  device::Event copied;
  try {
    start(&copied);
  } catch (...) {
    wait_for_started(context, queue, copied);
    throw;
  }
  return copied;
}

}  // namespace crossdock::exchange
