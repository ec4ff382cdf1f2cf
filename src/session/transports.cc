#include "crossdock/session/transports.h"

#include "session/flight/transport.h"
#include "transport/fabric.h"
#include "transport/registry.h"
#include "transport/shm.h"
#include "transport/tcp.h"
#include "transport/ucx.h"

namespace crossdock::session {

std::shared_ptr<const transport::TransportRegistry> make_transports(const TransportOptions& options) {
  auto registry = std::make_shared<transport::TransportRegistry>();
  registry->add(transport::make_shm_transport(options.shm));
  registry->add(transport::make_tcp_transport(options.tcp));
  registry->add(transport::make_tcp_tls_transport(options.tcp, options.tls));
  registry->add(transport::make_ucx_transport(options.ucx));
  registry->add(transport::make_fabric_transport(options.fabric));
  for (const char* scheme : {"grpc", "grpc+tcp"})
    registry->add(std::make_shared<const FlightTransport>(scheme, options.grpc));
  registry->add(std::make_shared<const FlightTransport>(kEncryptedFlight, options.grpc, options.tls));
  return registry;
}

}  // namespace crossdock::session
