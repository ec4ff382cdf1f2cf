#pragma once

#include <memory>
#include <string>

#include "domain.h"
#include "transport/fabric.h"

namespace crossdock::transport::fabric {

/// fabric_connect(), with the domains of a transport.
std::unique_ptr<Connection> connect(const FabricDomains& domains, const std::string& address,
                                    const FabricOptions& options, int timeout_ms, const InterruptHook& interrupted,
                                    const ConnectOptions& wishes);

}  // namespace crossdock::transport::fabric
