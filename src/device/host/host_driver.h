#pragma once

#include <memory>

#include "crossdock/device/driver.h"

namespace crossdock::device {

/// Makes the driver of the CPU's memory. Its queues are in order and synchronous: work is done when the verb that
/// starts it returns, so an event is complete as soon as it is recorded. A memory handle is the descriptor of a
/// recycled Region.
std::shared_ptr<Driver> make_host_driver();

}  // namespace crossdock::device
