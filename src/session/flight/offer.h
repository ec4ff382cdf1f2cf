#pragma once

#include <memory>
#include <string>

#include "crossdock/array/stream.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/client.h"
#include "session/flight/channel.h"

namespace crossdock::session {

/// Has a Flight server of Crossdock's fetch a whole stream from this process: publishes it at a listener of its own,
/// which knows one ticket and asks for a token, over shared memory and tcp, and returns once the server has published
/// the table. `only_new`: the server refuses a name that is taken. Throws the server's error, the stream's,
/// UnsupportedError (another server; a server that came by TLS and is at another machine), and those of
/// FlightChannel::ask().
void offer(const std::shared_ptr<FlightChannel>& channel, const std::string& name,
           std::unique_ptr<array::BatchStream> stream, bool only_new, const ClientOptions& options,
           const exchange::WaitFunction& wait, const transport::InterruptHook& interrupted);

}  // namespace crossdock::session
