#include "c_api/transports.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "c_api/arguments.h"
#include "crossdock/session/transports.h"

namespace crossdock::c_api {

std::shared_ptr<const transport::TransportRegistry> transports_of(const crossdock_transport_options* given) {
  if (given == nullptr) return nullptr;
  constexpr std::size_t kFirst = offsetof(crossdock_transport_options, any_user) + sizeof(std::int64_t);
  const auto options = options_of(given, kFirst, "crossdock_transport_options");

  const std::string token = text_of(options.token, "token");
  const auto users = array_of(options.other_users, options.n_other_users, "other_users");
  session::TransportOptions made;
  made.shm.any_user = options.any_user != 0;
  made.shm.other_users.assign(users.begin(), users.end());
  made.tcp.token = token;
  made.ucx.token = token;
  made.fabric.token = token;
  made.grpc.token = token;
  made.tls.certificate_chain = text_of(options.tls_certificate_chain, "tls_certificate_chain");
  made.tls.private_key = text_of(options.tls_private_key, "tls_private_key");
  made.tls.roots = text_of(options.tls_roots, "tls_roots");
  made.tls.client_roots = text_of(options.tls_client_roots, "tls_client_roots");
  made.tls.server_name = text_of(options.tls_server_name, "tls_server_name");
  return session::make_transports(made);
}

}  // namespace crossdock::c_api
