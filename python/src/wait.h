#pragma once

#include <memory>

#include "crossdock/device/driver.h"
#include "crossdock/device/memory.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// Waits for an event of `context`; Ctrl-C interrupts the wait. The main thread polls a few times, then leases a wait
/// thread (WaitThread), which blocks in the driver, and waits for that thread or a signal, whose handlers it runs.
/// Other threads run no signal handlers, so they block in the driver themselves. Releases the GIL if it is held. Throws
/// the error of the work if it failed. Throws nb::python_error if a signal handler raised: then the work goes on, and
/// the event can be waited for again.
void wait_for_event(const std::shared_ptr<device::Context>& context, const device::Event& event);

/// Waits for all work that is on the queue now, as wait_for_event() does: where the event of the queue can only be
/// recorded once that work is over (an out-of-order SYCL queue), the wait thread records it.
void wait_for_queue(const std::shared_ptr<device::Context>& context, const device::Queue& queue);

/// Calls Memory::pending() without the GIL, which it releases if it is held. Recording an event while the GIL is held
/// could deadlock: SYCL blocks all submissions while a thread waits for a host task, and dpctl's host tasks need the
/// GIL.
device::Event pending_without_lock(const device::Memory& memory);

}  // namespace crossdock::python
