#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "connection.h"
#include "crossdock/core/error.h"
#include "handshake.h"
#include "socket_options.h"
#include "transport/internal/socket_address.h"
#include "transport/internal/socket_listener.h"

namespace crossdock::transport {

namespace {

using namespace tcp;  // NOLINT(google-build-using-namespace): the private half of this very layer

constexpr int kBacklog = SOMAXCONN;  // limited by the system; a client that is dropped there tries again after a second

UniqueFd listen_at(const SocketAddress& endpoint, bool every_address, const TcpOptions& options, int* error) {
  UniqueFd socket(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  *error = errno;
  if (!socket) return {};
  const int yes = 1;
  const int v6_only = every_address ? 0 : 1;
  set_buffers(socket.get(), options, "a tcp listener");
  const bool listens = ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                       (endpoint.storage.ss_family != AF_INET6 ||
                        ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only) == 0) &&
                       ::bind(socket.get(), endpoint.get(), endpoint.size) == 0 &&
                       ::listen(socket.get(), kBacklog) == 0;
  *error = errno;
  if (!listens) return {};
  return socket;
}

/// Listens at the first address of the name for which this succeeds.
UniqueFd listen_socket(const HostPort& address, const TcpOptions& options) {
  const bool every_address = address.host == "*";
  std::vector<SocketAddress> endpoints = resolve(kScheme, address);
  if (every_address) {
    const std::vector<SocketAddress> v4 = resolve(kScheme, {"0.0.0.0", address.port});  // for machines without IPv6
    endpoints.insert(endpoints.end(), v4.begin(), v4.end());
  }
  int error = 0;
  for (const SocketAddress& endpoint : endpoints) {
    UniqueFd socket = listen_at(endpoint, every_address, options, &error);
    if (socket) return socket;
  }
  const std::string where = to_uri(kScheme, address.host.empty() ? "127.0.0.1" : address.host, address.port);
  switch (error) {
    case EADDRINUSE:
      throw ConnectionError("can't listen at " + where +
                            ": another process listens there; use port 0 to get a free port");
    case EADDRNOTAVAIL: throw ConnectionError("can't listen at " + where + ": this machine has no such address");
    case EACCES: throw PermissionError("can't listen at " + where + ": this user may not use that port");
    default: throw_errno(error, "listening at " + where);
  }
}

class TcpServerSocket final : public ServerSocket {
 public:
  TcpServerSocket(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                  const TcpOptions& options, LogCallback log)
      : ServerSocket(std::move(log)),
        options_(options),
        welcome_{.features = own_features(options),
                 .max_message = std::min(options.max_message, options.max_request),
                 .max_body = options.max_body,
                 .want_data = want_data,
                 .free_data = free_data},
        socket_(listen_socket(parse_address(kScheme, address), options)),
        wrong_tokens_([this](LogLevel level, std::string_view text) { say(level, std::string(text)); }) {
    const SocketAddress bound = local_address(socket_.get());
    uri_ = where_ = to_uri(kScheme, bound);
    if (!is_wildcard(bound)) return;
    uri_ = to_uri(kScheme, options.advertised_host.empty() ? host_name() : options.advertised_host, port_of(bound));
    say(LogLevel::kInfo, "listening at every address of this machine, port " + std::to_string(port_of(bound)));
  }

  int descriptor() const noexcept override { return socket_.get(); }
  std::string uri() const override { return uri_; }
  std::string where() const override { return where_; }
  std::unique_ptr<PendingHandshake> begin(UniqueFd client) override;

 private:
  class Handshake;

  const TcpOptions options_;
  const Welcome welcome_;  // without a proof
  const UniqueFd socket_;
  std::string where_;
  std::string uri_;
  WrongTokens wrong_tokens_;
};

class TcpServerSocket::Handshake final : public PendingHandshake {
 public:
  Handshake(TcpServerSocket& server, UniqueFd socket, const SocketAddress& peer, const std::string& where)
      : PendingHandshake(where),
        server_(server),
        socket_(std::move(socket), where),
        handshake_(kNames, server.options_.token, server.wrong_tokens_, peer, where) {}

  int descriptor() const noexcept override { return socket_.get(); }
  State read() override;
  State complete(std::unique_ptr<Connection>* connection) override;
  void send(const Refused& refused) override {
    send_record(socket_, encode(refused));
    shut_down(socket_.get());
  }

 private:
  TcpServerSocket& server_;
  Socket socket_;
  RecordReader reader_;
  ServerHandshake handshake_;
};

std::unique_ptr<PendingHandshake> TcpServerSocket::begin(UniqueFd client) {
  const SocketAddress peer = peer_address(client.get());
  const std::string where = to_uri(kScheme, peer);
  set_up(client.get(), options_, where);
  return std::make_unique<Handshake>(*this, std::move(client), peer, where);
}

PendingHandshake::State TcpServerSocket::Handshake::read() {
  switch (reader_.read(socket_)) {
    case RecordReader::State::kNothing: return State::kWaiting;
    case RecordReader::State::kEnd: return State::kEnded;
    case RecordReader::State::kForeign: throw ProtocolError(std::string(kNoHello));
    case RecordReader::State::kRecord: break;
  }
  const std::vector<std::byte> answer = handshake_.advance(reader_.next());
  if (answer.empty()) return State::kReady;
  return send_record(socket_, answer) ? State::kWaiting : State::kEnded;
}

PendingHandshake::State TcpServerSocket::Handshake::complete(std::unique_ptr<Connection>* connection) {
  const TcpOptions& options = server_.options_;
  if (options.checksum == Checksum::kOn && !use_checksums(server_.welcome_.features, handshake_.hello().features)) {
    throw Rejection{{Refusal::kChecksums,
                     "this server requires checksums, but the client offers none: upgrade the client, or don't switch "
                     "its checksums off"}};
  }
  const std::vector<std::byte> record = handshake_.accept(server_.welcome_);
  // The client is told any error thrown here: this keeps a descriptor of its own until the welcome was sent.
  *connection = std::make_unique<TcpConnection>(
      socket_.duplicate(),
      introduce(server_.welcome_, handshake_.hello(), server_.welcome_,
                ConnectOptions{.role = handshake_.role(), .ways = Way::kMessage}, where()),
      options);
  return send_record(socket_, record) ? State::kConnected : State::kEnded;
}

}  // namespace

std::unique_ptr<Listener> tcp_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const TcpOptions& options, LogCallback log) {
  check_options(options);
  auto socket = std::make_unique<TcpServerSocket>(address, want_data, free_data, options, std::move(log));
  return std::make_unique<SocketListener>(std::move(socket), "this tcp listener",
                                          std::chrono::milliseconds(options.handshake_timeout_ms));
}

namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TcpOptions& options) : options_(options) { check_options(options); }
  std::string_view scheme() const noexcept override { return kScheme; }
  Ways ways() const noexcept override { return Way::kMessage; }
  bool needs_sealed_files() const noexcept override { return false; }
  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback log) const override {
    // Clients only send requests and frees: bodies are accepted from no client.
    TcpOptions options = options_;
    options.max_body = 0;
    return tcp_listen(address, want_data, free_data, options, std::move(log));
  }
  std::unique_ptr<Connection> connect(const std::string& address, const ConnectOptions& wishes, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return tcp_connect(address, options_, timeout_ms, interrupted, wishes);
  }

 private:
  const TcpOptions options_;
};

}  // namespace

std::shared_ptr<const Transport> make_tcp_transport(const TcpOptions& options) {
  return std::make_shared<const TcpTransport>(options);
}

}  // namespace crossdock::transport
