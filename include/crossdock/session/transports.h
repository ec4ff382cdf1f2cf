#pragma once

#include <memory>

#include "crossdock/core/export.h"
#include "crossdock/session/flight.h"
#include "crossdock/transport/options.h"

namespace crossdock::transport {
class TransportRegistry;
}

namespace crossdock::session {

/// Options of all transports that reach other processes.
struct TransportOptions {
  transport::ShmOptions shm = {};
  transport::TcpOptions tcp = {};
  transport::UcxOptions ucx = {};
  transport::FabricOptions fabric = {};
  GrpcOptions grpc = {};
  /// For `tcp+tls:`, whose other options are those of `tcp`, and for clients over `grpc+tls:`.
  transport::TlsOptions tls = {};
};

/// Makes a registry with every transport that reaches other processes, for ServerOptions::transports and
/// ClientOptions::transports. Throws InvalidArgumentError for options that can't work.
CROSSDOCK_EXPORT std::shared_ptr<const transport::TransportRegistry> make_transports(
    const TransportOptions& options = {});

}  // namespace crossdock::session
