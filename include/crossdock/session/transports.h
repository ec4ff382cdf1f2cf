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
  transport::ShmOptions shm = {};        ///< For `shm:`.
  transport::TcpOptions tcp = {};        ///< For `tcp:` and `tcp+tls:`.
  transport::UcxOptions ucx = {};        ///< For `ucx:`.
  transport::FabricOptions fabric = {};  ///< For `fabric:`.
  GrpcOptions grpc = {};                 ///< For clients over `grpc:` and `grpc+tls:`; servers have FlightOptions.
  /// For `tcp+tls:`, whose other options are those of `tcp`, and for clients over `grpc+tls:`.
  transport::TlsOptions tls = {};
};

/// Makes a registry with every transport that reaches other processes, for ServerOptions::transports and
/// ClientOptions::transports. Throws InvalidArgumentError for options that can't work.
CROSSDOCK_EXPORT std::shared_ptr<const transport::TransportRegistry> make_transports(
    const TransportOptions& options = {});

}  // namespace crossdock::session
