#include <poll.h>

#include <utility>
#include <vector>

#include "connect.h"
#include "connection.h"
#include "crossdock/core/error.h"
#include "settings.h"
#include "transport/net/connect.h"
#include "transport/ways.h"

namespace crossdock::transport {

namespace {

using namespace tcp;  // NOLINT(google-build-using-namespace): the private half of this very layer

/// Does the TLS handshake. Returns the roles for the proofs of a token.
TokenRoles secure(net::tls::Stream& stream, const std::string& where, const Deadline& deadline) {
  for (;;) {
    switch (stream.handshake()) {
      case net::tls::Stream::State::kComplete: return TokenRoles(stream.binding());
      case net::tls::Stream::State::kWaiting: break;
      case net::tls::Stream::State::kEnd:
        throw HandshakeError(where +
                             " closed the connection during the TLS handshake: is it a Crossdock server at a tcp+tls: "
                             "address, and this the right port?");
      case net::tls::Stream::State::kPlain:
        throw HandshakeError(where +
                             " is a Crossdock server that speaks no TLS at this port: connect to its tcp+tls: "
                             "address, or to tcp:// if nothing needs to be encrypted");
    }
    deadline.wait(stream.get(), static_cast<short>(stream.wants_room() ? POLLIN | POLLOUT : POLLIN));
  }
}

/// Exchanges HELLO and WELCOME, and the proofs if there is a token.
net::Welcome shake_hands(net::SocketStream& stream, const net::Hello& hello, const TcpOptions& options,
                         const TokenRoles& roles, const std::string& where, const Deadline& deadline) {
  net::ClientHandshake handshake(hello, options.token, roles.names(), where);
  // A server that rejects at once has already answered and closed the connection. Its answer is a better error than a
  // failure to send, which is therefore ignored.
  net::send_record(stream, handshake.opening());
  net::RecordReader reader;
  while (!handshake.complete()) {
    std::optional<std::vector<std::byte>> record = net::next_record(stream, reader, where);
    if (!record) {
      deadline.wait(stream.get(), POLLIN);
      continue;
    }
    const std::vector<std::byte> answer = handshake.advance(*std::move(record));
    if (!answer.empty()) net::send_record(stream, answer);
  }
  return handshake.welcome();
}

/// The name that the server's certificate must have.
std::string server_name(const Carrier& carrier, const std::string& host) {
  if (!carrier.tls) return {};
  const std::string& name = carrier.tls->server_name();
  if (!name.empty()) return name;
  return host.substr(0, host.find('%'));  // without the interface of an address of IPv6
}

}  // namespace

std::unique_ptr<Connection> tcp::connect_over(const Carrier& carrier, const std::string& address,
                                              const TcpOptions& options, int timeout_ms,
                                              const InterruptHook& interrupted, const ConnectOptions& wishes) {
  check_options(options);
  const char* const scheme = carrier.names.scheme;
  const HostPort to = net::server_address(scheme, address);
  const std::string host = to.host.empty() ? "127.0.0.1" : to.host;
  const std::string where = to_uri(scheme, host, to.port);
  const ConnectOptions agreed{
      .role = wishes.role, .ways = agreed_ways(wishes.ways, Way::kMessage, where), .wants_parts = wishes.wants_parts};
  const Deadline deadline(where, timeout_ms, interrupted);
  const Channel channel(carrier, net::connect_socket(scheme, to, socket_options(options), where, deadline), where,
                        server_name(carrier, host));
  const TokenRoles roles = channel.tls() != nullptr ? secure(*channel.tls(), where, deadline) : TokenRoles();
  const std::uint64_t features = own_features(options);
  const net::Hello hello{.features = features,
                         .max_message = options.max_message,
                         .max_body = options.max_body,
                         .role = static_cast<std::uint32_t>(agreed.role),
                         .has_token = !options.token.empty(),
                         .nonce = net::make_nonce()};
  const net::Welcome welcome = shake_hands(channel.stream(), hello, options, roles, where, deadline);
  if (options.checksum == Checksum::kOn && !net::use_checksums(features, welcome.features)) {
    throw HandshakeError(where +
                         " offers no checksums, but this client requires them (TcpOptions::checksum; in Python "
                         "checksum=True, of the command --checksum): upgrade the server, or don't switch its checksums "
                         "off");
  }
  return std::make_unique<TcpConnection>(channel, introduce(hello, welcome, welcome, agreed, where), options, carrier);
}

std::unique_ptr<Connection> tcp_connect(const std::string& address, const TcpOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, const ConnectOptions& wishes) {
  return connect_over({}, address, options, timeout_ms, interrupted, wishes);
}

std::unique_ptr<Connection> tcp_tls_connect(const std::string& address, const TcpOptions& options,
                                            const TlsOptions& tls, int timeout_ms, const InterruptHook& interrupted,
                                            const ConnectOptions& wishes) {
  return connect_over(Carrier::with_tls(net::tls::End::kClient, tls), address, options, timeout_ms, interrupted,
                      wishes);
}

}  // namespace crossdock::transport
