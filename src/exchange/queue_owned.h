#pragma once

#include <memory>

#include "crossdock/device/buffer.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

namespace crossdock::exchange {

/// An owner whose end gives `buffer` back after the work that is on `queue` then: never under it, and without waiting.
/// Memory of others (the host's, a peer device's) too: `context` is the queue's, and only keeps it.
std::shared_ptr<const void> owned_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context,
                                           device::Queue queue);

}  // namespace crossdock::exchange
