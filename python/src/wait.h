#pragma once

#include <memory>

#include "crossdock/device/driver.h"
#include "crossdock/device/event.h"

namespace crossdock::python {

/// Waits for an event of `context`, with Ctrl-C answered: what isn't over in a moment is waited for by another
/// thread (WaitThread), in the driver, and the main thread waits for that one or for a signal, whose handlers Python
/// runs. Other threads, which run none, wait in the driver themselves. Releases the interpreter lock if it is held.
/// Throws the failure of the work, and nb::python_error for what a handler raised: the work goes on then, and the event
/// stays to be waited for.
void wait_for_event(const std::shared_ptr<device::Context>& context, const device::Event& event);

/// Records what Event::end_of() gave, as whoever takes its native handle is about to do, with the interpreter lock let
/// go if it is held: SYCL lets nobody submit while somebody waits for a host task, and dpctl's host tasks want the
/// lock.
void record_without_lock(const device::Event& event);

}  // namespace crossdock::python
