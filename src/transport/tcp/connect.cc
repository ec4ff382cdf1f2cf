#include "transport/net/connect.h"

#include <poll.h>

#include <utility>
#include <vector>

#include "connection.h"
#include "crossdock/core/error.h"
#include "settings.h"
#include "transport/internal/ways.h"

namespace crossdock::transport {

namespace {

using namespace tcp;  // NOLINT(google-build-using-namespace): the private half of this very layer

/// Exchanges HELLO and WELCOME, and the proofs if there is a token.
net::Welcome shake_hands(net::Socket& socket, const net::Hello& hello, const TcpOptions& options,
                         const std::string& where, const Deadline& deadline) {
  net::ClientHandshake handshake(hello, options.token, kHandshakeNames, where);
  // A server that rejects at once has already answered and closed the connection. Its answer is a better error than a
  // failure to send, which is therefore ignored.
  net::send_record(socket, handshake.opening());
  net::RecordReader reader;
  while (!handshake.complete()) {
    std::optional<std::vector<std::byte>> record = net::next_record(socket, reader, where);
    if (!record) {
      deadline.wait(socket.get(), POLLIN);
      continue;
    }
    const std::vector<std::byte> answer = handshake.advance(*std::move(record));
    if (!answer.empty()) net::send_record(socket, answer);
  }
  return handshake.welcome();
}

}  // namespace

std::unique_ptr<Connection> tcp_connect(const std::string& address, const TcpOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, const ConnectOptions& wishes) {
  check_options(options);
  const HostPort to = net::server_address(kNames.scheme, address);
  const std::string where = to_uri(kNames.scheme, to.host.empty() ? "127.0.0.1" : to.host, to.port);
  const ConnectOptions agreed{
      .role = wishes.role, .ways = agreed_ways(wishes.ways, Way::kMessage, where), .wants_parts = wishes.wants_parts};
  const Deadline deadline(where, timeout_ms, interrupted);
  net::Socket socket(net::connect_socket(kNames.scheme, to, socket_options(options), where, deadline), where);
  const std::uint64_t features = own_features(options);
  const net::Hello hello{.features = features,
                         .max_message = options.max_message,
                         .max_body = options.max_body,
                         .role = static_cast<std::uint32_t>(agreed.role),
                         .has_token = !options.token.empty(),
                         .nonce = net::make_nonce()};
  const net::Welcome welcome = shake_hands(socket, hello, options, where, deadline);
  if (options.checksum == Checksum::kOn && !net::use_checksums(features, welcome.features)) {
    throw HandshakeError(where +
                         " offers no checksums, but this client requires them (TcpOptions::checksum; in Python "
                         "checksum=True, of the command --checksum): upgrade the server, or don't switch its checksums "
                         "off");
  }
  return std::make_unique<TcpConnection>(socket.duplicate(), introduce(hello, welcome, welcome, agreed, where),
                                         options);
}

}  // namespace crossdock::transport
