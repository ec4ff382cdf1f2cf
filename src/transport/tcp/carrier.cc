#include "carrier.h"

#include <string_view>
#include <utility>

namespace crossdock::transport::tcp {
namespace {

constexpr net::StreamNames kTlsNames = {
    .scheme = "tcp+tls", .options = "TcpOptions", .connection = "this tcp+tls connection"};

std::string bound(std::string_view role, const net::tls::Stream::Binding& binding) {
  return std::string(role) + std::string(binding.data(), binding.size());
}

}  // namespace

Carrier Carrier::with_tls(net::tls::End end, const TlsOptions& options) {
  return {.names = kTlsNames,
          .tls = std::make_shared<const net::tls::Context>(end, options),
          .wants_certificate = end == net::tls::End::kServer && !options.client_roots.empty()};
}

TokenRoles::TokenRoles(const net::tls::Stream::Binding& binding)
    : client_(bound("crossdock tcp+tls 1 client", binding)), server_(bound("crossdock tcp+tls 1 server", binding)) {}

net::HandshakeNames TokenRoles::names() const noexcept {
  return {.options = kNames.options, .client_role = client_, .server_role = server_};
}

Channel::Channel(const Carrier& carrier, UniqueFd socket, const std::string& where, const std::string& server_name) {
  if (!carrier.tls) {
    stream_ = std::make_shared<net::Socket>(std::move(socket), where);
    return;
  }
  auto stream = std::make_shared<net::tls::Stream>(std::move(socket), where, carrier.tls, server_name);
  tls_ = stream.get();
  stream_ = std::move(stream);
}

}  // namespace crossdock::transport::tcp
