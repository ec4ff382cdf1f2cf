#pragma once

#include <memory>

#include "crossdock/device/buffer.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

namespace crossdock::exchange {

/// A queue for what outlasts the call: `asked` itself, or where that is bound to the calling thread a new one of the
/// same context that comes after the work which is on it now. Memory is given back by whichever thread is the last to
/// hold it, and a thread's own queue is another one there.
class LastingQueue {
 public:
  LastingQueue(const std::shared_ptr<device::Context>& context, const device::Queue& asked);

  const device::Queue& queue() const noexcept { return queue_; }
  /// The queue that was asked for comes after `event`, which is one of this one's work: its caller goes on there.
  void go_on_after(const device::Event& event) const;
  /// Before the end of what is here: if this is its thread, comes after the work that is on the queue asked for now.
  void catch_up() const;

 private:
  std::shared_ptr<device::Context> context_;
  device::Queue asked_;
  device::Queue queue_;
};

/// An owner whose end gives `buffer` back after the work that is on `queue` then: never under it, and, unless the
/// driver refuses, without waiting. What it refuses is waited for; what can't be waited for either keeps the memory for
/// good. Memory of others (the host's, a peer device's) too: `context` is the queue's, and only keeps it.
std::shared_ptr<const void> owned_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context,
                                           const LastingQueue& queue);

/// Waits for everything that is on the queue, as far as the driver still can. False if it can't even be asked to.
bool wait_for_all(device::Context& context, const device::Queue& queue) noexcept;

}  // namespace crossdock::exchange
