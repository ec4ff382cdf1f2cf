#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "carrier.h"
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
                  const TcpOptions& options, LogCallback log, Serves serves, Carrier carrier)
      : StreamServerSocket(carrier.names, address, socket_options(options), options.advertised_host, std::move(log)),
        carrier_(std::move(carrier)),
        options_(options),
        serves_(serves),
        welcome_{.features = own_features(options),
                 .max_message = std::min(options.max_message, options.max_request),
                 .max_body = options.max_body,
                 .want_data = want_data,
                 .free_data = free_data} {
    warn_if_open(!options_.token.empty() || carrier_.wants_certificate);
  }

 private:
  class Handshake;

  std::unique_ptr<PendingHandshake> begin_with(UniqueFd client, const SocketAddress& peer,
                                               const std::string& where) override;

  const Carrier carrier_;
  const TcpOptions options_;
  const Serves serves_;
  const net::Welcome welcome_;  // without a proof
};

class TcpServerSocket::Handshake final : public PendingHandshake {
 public:
  Handshake(TcpServerSocket& server, UniqueFd socket, const SocketAddress& peer, const std::string& where)
      : PendingHandshake(where), server_(server), peer_(peer), channel_(server.carrier_, std::move(socket), where) {
    if (channel_.tls() == nullptr) begin_records();
  }

  int descriptor() const noexcept override { return channel_.stream().get(); }
  bool wants_room() const noexcept override { return phase_ == Phase::kTls && channel_.tls()->wants_room(); }
  bool prepare_wait() override { return phase_ != Phase::kRecords || !channel_.stream().holds_input(); }
  State read() override;
  State complete(std::unique_ptr<Connection>* connection) override;
  void send(const Refused& refused) override;

 private:
  enum class Phase : std::uint8_t {
    kTls,
    kRecords,
    kRefused,  // TLS has told the client why; this waits until the client has closed
  };

  void begin_records() {
    phase_ = Phase::kRecords;
    names_ = roles_.names();
    handshake_.emplace(names_, server_.options_.token, server_.wrong_tokens_, peer_, where(), server_.serves_);
  }
  State read_records();
  State secure();
  State await_close();

  TcpServerSocket& server_;
  const SocketAddress peer_;
  Channel channel_;
  Phase phase_ = Phase::kTls;
  TokenRoles roles_;
  net::HandshakeNames names_{};
  net::RecordReader reader_;
  std::optional<net::ServerHandshake> handshake_;  // from Phase::kRecords on
};

std::unique_ptr<PendingHandshake> TcpServerSocket::begin_with(UniqueFd client, const SocketAddress& peer,
                                                              const std::string& where) {
  return std::make_unique<Handshake>(*this, std::move(client), peer, where);
}

PendingHandshake::State TcpServerSocket::Handshake::read() {
  switch (phase_) {
    case Phase::kTls: return secure();
    case Phase::kRefused: return await_close();
    case Phase::kRecords: break;
  }
  return read_records();
}

PendingHandshake::State TcpServerSocket::Handshake::secure() {
  net::tls::Stream& stream = *channel_.tls();
  try {
    switch (stream.handshake()) {
      case net::tls::Stream::State::kWaiting: return State::kWaiting;
      case net::tls::Stream::State::kEnd: return State::kEnded;
      case net::tls::Stream::State::kPlain:
        throw Rejection{
            {Refusal::kMode,
             "the client speaks no TLS, but this server does at this port: connect to its tcp+tls: address"}};
      case net::tls::Stream::State::kComplete: break;
    }
  } catch (const Error& error) {
    // An alert of TLS has told the client, unless it speaks none. If this end closed while bytes of the client are on
    // their way, the system would drop the alert.
    server_.say(LogLevel::kWarning, where() + " was rejected: " + error.what());
    phase_ = Phase::kRefused;
    net::shut_down(descriptor());
    return await_close();
  }
  roles_ = TokenRoles(stream.binding());
  begin_records();
  return read_records();  // the client's first record may have come with its last one of TLS
}

/// Drops what the client still sends.
PendingHandshake::State TcpServerSocket::Handshake::await_close() {
  std::array<std::byte, 512> dropped;
  const iovec all{dropped.data(), dropped.size()};
  // One read a turn: a client that goes on sending is dropped at its deadline.
  return channel_.tls()->plain().read({&all, 1}).state == net::IoResult::State::kEnd ? State::kEnded : State::kWaiting;
}

PendingHandshake::State TcpServerSocket::Handshake::read_records() {
  switch (reader_.read(channel_.stream())) {
    case net::RecordReader::State::kNothing: return State::kWaiting;
    case net::RecordReader::State::kEnd: return State::kEnded;
    case net::RecordReader::State::kForeign:
      throw ProtocolError(std::string(reader_.is_tls() ? "the client speaks TLS, but this server doesn't at this port: "
                                                         "connect to its tcp: address"
                                                       : net::kNoHello));
    case net::RecordReader::State::kRecord: break;
  }
  const std::vector<std::byte> answer = handshake_->advance(reader_.next());
  if (answer.empty()) return State::kReady;
  return net::send_record(channel_.stream(), answer) ? State::kWaiting : State::kEnded;
}

void TcpServerSocket::Handshake::send(const Refused& refused) {
  // A client that speaks no TLS is told so without it. One whose TLS has failed was told, and one in the middle of it
  // can't be told.
  if (phase_ == Phase::kRecords) {
    net::send_record(channel_.stream(), net::encode(refused));
    channel_.stream().finish();
  } else if (refused.code == Refusal::kMode) {
    net::send_record(channel_.tls()->plain(), net::encode(refused));
  }
  net::shut_down(descriptor());
}

PendingHandshake::State TcpServerSocket::Handshake::complete(std::unique_ptr<Connection>* connection) {
  const TcpOptions& options = server_.options_;
  if (options.checksum == Checksum::kOn &&
      !net::use_checksums(server_.welcome_.features, handshake_->hello().features)) {
    throw Rejection{{Refusal::kChecksums,
                     "this server requires checksums, but the client offers none: upgrade the client, or don't switch "
                     "its checksums off"}};
  }
  const std::vector<std::byte> record = handshake_->accept(server_.welcome_);
  Introduction introduction = introduce(server_.welcome_, handshake_->hello(), server_.welcome_,
                                        ConnectOptions{.role = handshake_->role(), .ways = Way::kMessage}, where());
  introduction.agreement.authenticated = handshake_->proves() || server_.carrier_.wants_certificate;
  introduction.agreement.privileged = introduction.agreement.authenticated;
  // The client is told any error thrown here, over the same stream.
  *connection = std::make_unique<TcpConnection>(channel_, introduction, options, server_.carrier_);
  return net::send_record(channel_.stream(), record) ? State::kConnected : State::kEnded;
}

}  // namespace

namespace {

std::unique_ptr<Listener> listen_over(Carrier carrier, const std::string& address, std::uint64_t want_data,
                                      std::uint64_t free_data, const TcpOptions& options, LogCallback log,
                                      Serves serves) {
  check_options(options);
  const char* const what = carrier.tls ? "this tcp+tls listener" : "this tcp listener";
  auto socket = std::make_unique<TcpServerSocket>(address, want_data, free_data, options, std::move(log), serves,
                                                  std::move(carrier));
  return std::make_unique<SocketListener>(std::move(socket), what, options.handshake_timeout);
}

}  // namespace

std::unique_ptr<Listener> tcp_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const TcpOptions& options, LogCallback log, Serves serves) {
  return listen_over({}, address, want_data, free_data, options, std::move(log), serves);
}

std::unique_ptr<Listener> tcp_tls_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                         const TcpOptions& options, const TlsOptions& tls, LogCallback log,
                                         Serves serves) {
  return listen_over(Carrier::with_tls(net::tls::End::kServer, tls), address, want_data, free_data, options,
                     std::move(log), serves);
}

}  // namespace crossdock::transport
