#pragma once

#include <memory>
#include <string>

#include "carrier.h"
#include "transport/tcp.h"

namespace crossdock::transport::tcp {

/// tcp_connect() or tcp_tls_connect(), as the carrier is.
std::unique_ptr<Connection> connect_over(const Carrier& carrier, const std::string& address, const TcpOptions& options,
                                         int timeout_ms, const InterruptHook& interrupted,
                                         const ConnectOptions& wishes);

}  // namespace crossdock::transport::tcp
