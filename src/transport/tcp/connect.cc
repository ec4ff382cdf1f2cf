#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "connection.h"
#include "crossdock/core/error.h"
#include "handshake.h"
#include "socket_options.h"
#include "transport/internal/deadline.h"
#include "transport/internal/socket_address.h"
#include "transport/internal/ways.h"

namespace crossdock::transport {

namespace {

using namespace tcp;  // NOLINT(google-build-using-namespace): the private half of this very layer

/// Connects to one address. Returns an empty descriptor on failure, with the reason in `*error`. Throws TimeoutError,
/// InterruptedError, SystemError.
UniqueFd connect_to(const SocketAddress& endpoint, const TcpOptions& options, const std::string& where,
                    const Deadline& deadline, std::optional<Deadline::Clock::time_point> give_up, int* error) {
  UniqueFd socket(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    *error = errno;
    if (*error == EAFNOSUPPORT) return {};  // a machine without IPv6, for example
    throw_errno(errno, "making a socket for " + where);
  }
  set_buffers(socket.get(), options, where);
  *error = ::connect(socket.get(), endpoint.get(), endpoint.size) == 0 ? 0 : errno;
  if (*error == EINPROGRESS || *error == EINTR) {
    while (!deadline.wait(socket.get(), POLLOUT)) {
      if (!give_up || Deadline::Clock::now() < *give_up) continue;
      *error = ETIMEDOUT;
      return {};
    }
    socklen_t size = sizeof *error;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, error, &size) != 0) *error = errno;
  }
  if (*error != 0) return {};
  return socket;
}

/// Connects to the first address of the name that answers.
UniqueFd connect_socket(const HostPort& address, const TcpOptions& options, const std::string& where,
                        const Deadline& deadline) {
  const std::vector<SocketAddress> endpoints = resolve(kScheme, address);
  std::string tried;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    int error = 0;
    UniqueFd socket = connect_to(endpoints[i], options, where, deadline, deadline.share(endpoints.size() - i), &error);
    if (socket) return socket;
    const std::string why = error == ECONNREFUSED ? "no server listens" : std::generic_category().message(error);
    tried += (tried.empty() ? "" : "; ") + host_of(endpoints[i]) + ": " + why;
  }
  throw ConnectionError("can't connect to " + where + " (" + tried + "); is the server up, and does it listen there?");
}

/// Waits for the server's next record and returns it.
std::vector<std::byte> await_record(Socket& socket, RecordReader& reader, const std::string& where,
                                    const Deadline& deadline) {
  for (;;) {
    switch (reader.read(socket)) {
      case RecordReader::State::kRecord: return reader.next();
      case RecordReader::State::kForeign:
        throw HandshakeError(where + " answered with something else: it is not a Crossdock server");
      case RecordReader::State::kEnd:
        throw HandshakeError(where + " closed the connection instead of answering: is it a Crossdock server?");
      case RecordReader::State::kNothing: break;
    }
    deadline.wait(socket.get(), POLLIN);
  }
}

/// Exchanges HELLO and WELCOME, and the proofs if there is a token.
Welcome shake_hands(Socket& socket, const Hello& hello, const TcpOptions& options, const std::string& where,
                    const Deadline& deadline) {
  ClientHandshake handshake(hello, options.token, kNames, where);
  // A server that rejects at once has already answered and closed the connection. Its answer is a better error than a
  // failure to send, which is therefore ignored.
  send_record(socket, handshake.opening());
  RecordReader reader;
  while (!handshake.complete()) {
    const std::vector<std::byte> answer = handshake.advance(await_record(socket, reader, where, deadline));
    if (!answer.empty()) send_record(socket, answer);
  }
  return handshake.welcome();
}

}  // namespace

std::unique_ptr<Connection> tcp_connect(const std::string& address, const TcpOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, const ConnectOptions& wishes) {
  check_options(options);
  const HostPort to = parse_address(kScheme, address);
  if (to.port == 0) throw UriError("tcp:" + address + " has no port to connect to: use the port of the server's uri");
  if (to.host == "*")
    throw UriError("tcp:" + address + " stands for every address of a machine: give the address to connect to");
  const std::string where = to_uri(kScheme, to.host.empty() ? "127.0.0.1" : to.host, to.port);
  const ConnectOptions agreed{
      .role = wishes.role, .ways = agreed_ways(wishes.ways, Way::kMessage, where), .wants_parts = wishes.wants_parts};
  const Deadline deadline(where, timeout_ms, interrupted);
  Socket socket(connect_socket(to, options, where, deadline), where);
  set_up(socket.get(), options, where);
  const std::uint64_t features = own_features(options);
  const Hello hello{.features = features,
                    .max_message = options.max_message,
                    .max_body = options.max_body,
                    .role = static_cast<std::uint32_t>(agreed.role),
                    .has_token = !options.token.empty(),
                    .nonce = make_nonce()};
  const Welcome welcome = shake_hands(socket, hello, options, where, deadline);
  if (options.checksum == Checksum::kOn && !use_checksums(features, welcome.features)) {
    throw HandshakeError(where +
                         " offers no checksums, but TcpOptions::checksum of this client requires them: upgrade the "
                         "server, or don't switch its checksums off");
  }
  return std::make_unique<TcpConnection>(socket.duplicate(), introduce(hello, welcome, welcome, agreed, where),
                                         options);
}

}  // namespace crossdock::transport
