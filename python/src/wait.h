#pragma once

#include "crossdock/device/driver.h"
#include "crossdock/device/event.h"

namespace crossdock::python {

/// Waits for an event of `context`, with Ctrl-C answered: on the main thread the driver is asked again and again, at
/// growing distances, and in between Python's signal handlers run; other threads, which run none, leave the waiting to
/// the driver. Lets go of the interpreter lock if it is held. Throws the failure of the work, and nb::python_error for
/// what a handler raised: the work goes on then, and the event stays to be waited for.
void wait_for_event(device::Context& context, const device::Event& event);

}  // namespace crossdock::python
