#pragma once

#include <memory>
#include <string>

#include "context.h"
#include "transport/transport.h"

namespace crossdock::transport::ucx {

/// ucx_connect(), with contexts that are shared with other connections.
std::unique_ptr<Connection> connect_to(UcxContexts& contexts, const std::string& address, const UcxOptions& options,
                                       int timeout_ms, const InterruptHook& interrupted, const ConnectOptions& wishes);

}  // namespace crossdock::transport::ucx
