#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
/// A client with a wrong token waits this long for the answer, and occupies a handshake meanwhile. So an attacker gets
/// at most SocketListener::kMaxHandshakes guesses in this time.
constexpr std::chrono::milliseconds kWrongTokenDelay{1000};
/// At most this many wrong tokens of one peer wait at once, so that handshakes are left for other peers. While that
/// many wait, none of the peer's tokens is checked, right or wrong, so that the answer reveals nothing.
constexpr std::ptrdiff_t kMaxWrongTokensPerPeer = SocketListener::kMaxHandshakes / 4;

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

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw_errno(errno, "asking for the host's name");
  return name.data();
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
        socket_(listen_socket(parse_address(kScheme, address), options)) {
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
  std::vector<const Handshake*> wrong_tokens_;  // of clients that wait for the answer
};

class TcpServerSocket::Handshake final : public PendingHandshake {
 public:
  Handshake(TcpServerSocket& server, UniqueFd socket, const SocketAddress& peer, const std::string& where)
      : PendingHandshake(where), server_(server), socket_(std::move(socket), where), peer_(peer) {}
  ~Handshake() override { std::erase(server_.wrong_tokens_, this); }

  int descriptor() const noexcept override { return socket_.get(); }
  State read() override;
  State complete(std::unique_ptr<Connection>* connection) override;
  void send(const Refused& refused) override {
    send_record(socket_, encode(refused));
    shut_down(socket_.get());
  }

 private:
  State read_opening();
  State check_proof();

  TcpServerSocket& server_;
  Socket socket_;
  const SocketAddress peer_;
  RecordReader reader_;
  Hello hello_;
  ConnectOptions client_{.ways = Way::kMessage};
  std::vector<std::byte> opening_;    // its HELLO, after the challenge was sent
  std::vector<std::byte> challenge_;  // of this server
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
    case RecordReader::State::kForeign: throw ProtocolError("the client sent no HELLO: it is not a Crossdock client");
    case RecordReader::State::kRecord: break;
  }
  return challenge_.empty() ? read_opening() : check_proof();
}

PendingHandshake::State TcpServerSocket::Handshake::read_opening() {
  const Preamble& preamble = reader_.preamble();
  if (preamble.type != RecordType::kHello)
    throw ProtocolError("the client sent no HELLO: it is not a Crossdock client");
  require_client_version(preamble.version, kProtocolVersion);
  if (preamble.mode != Mode::kPlain) {
    throw Rejection{{Refusal::kMode, "the client requests mode " +
                                         std::to_string(static_cast<std::uint32_t>(preamble.mode)) +
                                         "; this server supports only plain connections (mode 0)"}};
  }
  if (!decode(reader_.record(), &hello_)) throw ProtocolError("the client's HELLO is too short");
  if (is_damaged(reader_.record(), hello_)) {
    throw ProtocolError("the client's HELLO was damaged on its way: its CRC-32C is wrong; check the network");
  }
  client_.role = checked_role(hello_.role, hello_.max_message);
  if (server_.options_.token.empty()) return State::kReady;
  if (!hello_.has_token) {
    throw Rejection{{Refusal::kNotAllowed, "this server requires a token, but the client has none"}};
  }
  opening_ = reader_.next();
  challenge_ = encode(Challenge{make_nonce()});
  return send_record(socket_, challenge_) ? State::kWaiting : State::kEnded;
}

PendingHandshake::State TcpServerSocket::Handshake::check_proof() {
  if (reader_.preamble().type != RecordType::kProof) throw ProtocolError("the client sent no PROOF of the token");
  const auto wrong_tokens = std::ranges::count_if(
      server_.wrong_tokens_, [&](const Handshake* other) { return same_peer(other->peer_, peer_); });
  if (wrong_tokens >= kMaxWrongTokensPerPeer) {
    throw Rejection{{Refusal::kResources, "too many wrong tokens arrived from this address; try again in a second"}};
  }
  TokenProof given;
  if (!decode(reader_.record(), &given)) throw ProtocolError("the client's PROOF is too short");
  const std::array<ByteSpan, 2> records = {opening_, challenge_};
  if (same(given.proof, prove(server_.options_.token, kClientRole, records))) return State::kReady;
  server_.say(LogLevel::kWarning, where() + " gave a wrong token");
  server_.wrong_tokens_.push_back(this);
  throw Rejection{{Refusal::kNotAllowed, "the token is wrong"}, kWrongTokenDelay};
}

PendingHandshake::State TcpServerSocket::Handshake::complete(std::unique_ptr<Connection>* connection) {
  const TcpOptions& options = server_.options_;
  Welcome welcome = server_.welcome_;
  if (options.checksum == Checksum::kOn && !use_checksums(welcome.features, hello_.features)) {
    throw Rejection{{Refusal::kChecksums,
                     "this server requires checksums, but the client offers none: upgrade the client, or don't switch "
                     "its checksums off"}};
  }
  std::vector<std::byte> record = encode(welcome);
  if (!challenge_.empty()) {
    const std::array<ByteSpan, 3> records = {opening_, challenge_, proven_part(record)};
    welcome.proof = prove(options.token, kServerRole, records);
    record = encode(welcome);
  }
  // The client is told any error thrown here: this keeps a descriptor of its own until the welcome was sent.
  *connection = std::make_unique<TcpConnection>(socket_.duplicate(),
                                                introduce(welcome, hello_, welcome, client_, where()), options);
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
  bool shares_with_others() const noexcept override { return false; }
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
