#pragma once

#include <memory>
#include <string>

#include "crossdock/array/stream.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/runtime.h"
#include "session/flight/channel.h"

namespace crossdock::session {

/// Sends a whole stream to a Flight server by DoPut, from where its buffers lie; of a device, by one copy each. Returns
/// once the server has taken it. `only_new`: a server of Crossdock's refuses a name that is taken. `timeout_ms`: for
/// each message. Waits for devices by `wait`. Throws the server's error, the stream's, and those of
/// FlightChannel::ask().
void put(const std::shared_ptr<FlightChannel>& channel, const std::string& name, array::BatchStream& stream,
         bool only_new, const Runtime& runtime, const exchange::WaitFunction& wait, int timeout_ms,
         const transport::InterruptHook& interrupted);

}  // namespace crossdock::session
