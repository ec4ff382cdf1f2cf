#include <algorithm>
#include <chrono>
#include <utility>

#include "connection.h"
#include "crossdock/core/error.h"
#include "settings.h"
#include "transport/internal/socket_listener.h"
#include "transport/net/record_stream.h"
#include "transport/net/stream_server_socket.h"

namespace crossdock::transport {

namespace {

using namespace tcp;  // NOLINT(google-build-using-namespace): the private half of this very layer

class TcpServerSocket final : public net::StreamServerSocket {
 public:
  TcpServerSocket(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                  const TcpOptions& options, LogCallback log, Serves serves)
      : StreamServerSocket(kNames, address, socket_options(options), options.advertised_host, std::move(log)),
        options_(options),
        serves_(serves),
        welcome_{.features = own_features(options),
                 .max_message = std::min(options.max_message, options.max_request),
                 .max_body = options.max_body,
                 .want_data = want_data,
                 .free_data = free_data} {}

 private:
  class Handshake;

  std::unique_ptr<PendingHandshake> begin_with(UniqueFd client, const SocketAddress& peer,
                                               const std::string& where) override;

  const TcpOptions options_;
  const Serves serves_;
  const net::Welcome welcome_;  // without a proof
};

class TcpServerSocket::Handshake final : public PendingHandshake {
 public:
  Handshake(TcpServerSocket& server, UniqueFd socket, const SocketAddress& peer, const std::string& where)
      : PendingHandshake(where),
        server_(server),
        socket_(std::move(socket), where),
        handshake_(kHandshakeNames, server.options_.token, server.wrong_tokens_, peer, where, server.serves_) {}

  int descriptor() const noexcept override { return socket_.get(); }
  State read() override;
  State complete(std::unique_ptr<Connection>* connection) override;
  void send(const Refused& refused) override {
    net::send_record(socket_, net::encode(refused));
    net::shut_down(socket_.get());
  }

 private:
  TcpServerSocket& server_;
  net::Socket socket_;
  net::RecordReader reader_;
  net::ServerHandshake handshake_;
};

std::unique_ptr<PendingHandshake> TcpServerSocket::begin_with(UniqueFd client, const SocketAddress& peer,
                                                              const std::string& where) {
  return std::make_unique<Handshake>(*this, std::move(client), peer, where);
}

PendingHandshake::State TcpServerSocket::Handshake::read() {
  switch (reader_.read(socket_)) {
    case net::RecordReader::State::kNothing: return State::kWaiting;
    case net::RecordReader::State::kEnd: return State::kEnded;
    case net::RecordReader::State::kForeign: throw ProtocolError(std::string(net::kNoHello));
    case net::RecordReader::State::kRecord: break;
  }
  const std::vector<std::byte> answer = handshake_.advance(reader_.next());
  if (answer.empty()) return State::kReady;
  return net::send_record(socket_, answer) ? State::kWaiting : State::kEnded;
}

PendingHandshake::State TcpServerSocket::Handshake::complete(std::unique_ptr<Connection>* connection) {
  const TcpOptions& options = server_.options_;
  if (options.checksum == Checksum::kOn &&
      !net::use_checksums(server_.welcome_.features, handshake_.hello().features)) {
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
  return net::send_record(socket_, record) ? State::kConnected : State::kEnded;
}

}  // namespace

std::unique_ptr<Listener> tcp_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const TcpOptions& options, LogCallback log, Serves serves) {
  check_options(options);
  auto socket = std::make_unique<TcpServerSocket>(address, want_data, free_data, options, std::move(log), serves);
  return std::make_unique<SocketListener>(std::move(socket), "this tcp listener",
                                          std::chrono::milliseconds(options.handshake_timeout_ms));
}

namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TcpOptions& options) : options_(options) { check_options(options); }
  std::string_view scheme() const noexcept override { return kNames.scheme; }
  Ways ways() const noexcept override { return Way::kMessage; }
  bool needs_sealed_files() const noexcept override { return false; }
  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback log) const override {
    // Clients only send requests and frees: bodies are accepted from no client.
    TcpOptions options = options_;
    options.max_body = 0;
    return tcp_listen(address, want_data, free_data, options, std::move(log));
  }
  bool has_peers() const noexcept override { return true; }
  std::unique_ptr<Listener> listen_for_peers(const std::string& address, LogCallback log) const override {
    return tcp_listen(address, 0, 0, options_, std::move(log), Serves::kPeers);
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
