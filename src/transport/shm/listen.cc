#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "address.h"
#include "connection.h"
#include "core/fork.h"
#include "crossdock/core/error.h"
#include "handshake.h"
#include "transport/internal/socket_listener.h"

namespace crossdock::transport {

namespace {

using namespace shm;  // NOLINT(google-build-using-namespace): the private half of this very layer

/// While this many sockets wait to be closed, no new client is accepted: each of them occupies a descriptor.
constexpr std::size_t kMostToClose = 64;

/// Size of the queue for a client that doesn't read its control socket. Descriptors in it count for the user: a few
/// such clients must not use up the user's limit for all queues (about as many as one process may open).
constexpr int kControlBytes = 8 << 10;
/// The same for peers, which take turns with announcements: an end that is busy mustn't stop the other one at once.
constexpr int kControlBytesOfPeers = 64 << 10;

/// The memory of the next connection.
struct NextRings {
  explicit NextRings(std::uint64_t bytes) : own(RingMaker::End::kServer, bytes), peer(RingMaker::End::kClient, bytes) {}
  RingMaker own;
  RingMaker peer;
  bool own_made = false;
};

class ShmServerSocket final : public ServerSocket {
 public:
  ShmServerSocket(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                  const ShmOptions& options, LogCallback log, Serves serves)
      : ServerSocket(std::move(log)),
        options_(options),
        serves_(serves),
        welcome_{.ring_bytes = options.ring_bytes,
                 .max_message = std::min(options.max_message, options.max_request),
                 .max_body = options.max_body,
                 .want_data = want_data,
                 .free_data = free_data},
        file_(address, options) {}
  ~ShmServerSocket() override;

  int descriptor() const noexcept override { return file_.descriptor(); }
  std::string uri() const override { return file_.uri(); }
  std::string where() const override { return "shm:" + file_.path(); }
  std::unique_ptr<PendingHandshake> begin(UniqueFd client) override;
  const char* obstacle() const noexcept override {
    if (ControlSocket::waiting_to_close() < kMostToClose) return nullptr;
    return "clients have passed it descriptors that are slow to close; close their other ends, or end those clients";
  }
  void idle() noexcept override { rings_.reset(); }

 private:
  class Handshake;

  bool make_rings();

  const ForkGuard fork_;
  const ShmOptions options_;
  const Serves serves_;
  const Welcome welcome_;  // without features
  SocketFile file_;
  /// Made for the oldest client that is ready. If that client disconnects, they are used for the next one.
  std::optional<NextRings> rings_;
};

class ShmServerSocket::Handshake final : public PendingHandshake {
 public:
  Handshake(ShmServerSocket& server, std::shared_ptr<ControlSocket> socket, const Credentials& peer)
      : PendingHandshake("a client of " + name_peer(server.file_.path(), peer)),
        server_(server),
        socket_(std::move(socket)),
        peer_(peer) {}

  int descriptor() const noexcept override { return socket_->get(); }
  State read() override;
  State complete(std::unique_ptr<Connection>* connection) override;
  void send(const Refused& refused) override { send_packet(socket_->get(), encode(refused), {}, where()); }

 private:
  ShmServerSocket& server_;
  const std::shared_ptr<ControlSocket> socket_;
  const Credentials peer_;
  Hello opening_;
  ConnectOptions client_;
};

/// Clients in the queue are closed like other clients, by ControlSocket. If the system closed them with the listening
/// socket, it would also close the descriptors that they sent, on this thread.
ShmServerSocket::~ShmServerSocket() {
  if (fork_.in_child()) return;
  ::shutdown(descriptor(), SHUT_RDWR);
  while (UniqueFd client{::accept4(descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)}) {
    ControlSocket::closed_elsewhere(std::move(client));
  }
}

std::unique_ptr<PendingHandshake> ShmServerSocket::begin(UniqueFd client) {
  auto socket = ControlSocket::closed_elsewhere(std::move(client));
  const Credentials peer = peer_credentials(socket->get(), "its socket");
  const int queue = serves_ == Serves::kPeers ? kControlBytesOfPeers : kControlBytes;
  if (::setsockopt(socket->get(), SOL_SOCKET, SO_SNDBUF, &queue, sizeof queue) != 0) {
    throw_errno(errno, "setting up its socket");
  }
  return std::make_unique<Handshake>(*this, std::move(socket), peer);
}

/// Does one step. Returns true if both rings are made.
bool ShmServerSocket::make_rings() {
  try {
    if (!rings_) {
      rings_.emplace(options_.ring_bytes);
    } else if (!rings_->own_made) {
      rings_->own_made = rings_->own.step();
    } else {
      return rings_->peer.step();
    }
    return false;
  } catch (...) {
    rings_.reset();
    throw;
  }
}

PendingHandshake::State ShmServerSocket::Handshake::read() {
  if (!user_allowed(peer_.uid, server_.options_)) {
    throw Rejection{{Refusal::kNotAllowed, "user " + std::to_string(peer_.uid) +
                                               " may not connect to this server; its owner can list that user in "
                                               "ShmOptions::other_users (in Python users=, of `crossdock serve` "
                                               "--users)"}};
  }
  Packet packet;
  switch (receive_plain_packet(socket_->get(), &packet, where())) {
    case Received::kNothing: return State::kWaiting;
    case Received::kEnd: return State::kEnded;
    case Received::kPacket: break;
  }
  std::uint32_t version = 0;
  if (opening_of(packet.content(), &version) != Opening::kHello || packet.too_long) {
    throw ProtocolError("the client sent no HELLO: it is not a Crossdock client");
  }
  require_client_version(version, kProtocolVersion);
  if (!decode(packet.content(), &opening_)) throw ProtocolError("the client's HELLO is too short");
  client_.role = checked_role(opening_.role, opening_.max_message, server_.serves_);
  client_.keeps_descriptors = server_.serves_ == Serves::kPeers;
  client_.ways = opening_.ways == 0 ? kWays : Ways::from_bits(opening_.ways) & kWays;
  if (client_.ways.empty()) {
    throw ProtocolError("the client accepts bodies by none of the ways that shm has: " + to_text(kWays));
  }
  if (packet.left_in_queue) throw ProtocolError("the client's HELLO has descriptors, but must have none");
  return State::kReady;
}

PendingHandshake::State ShmServerSocket::Handshake::complete(std::unique_ptr<Connection>* connection) {
  if (!server_.make_rings()) return State::kReady;
  if (peer_has_gone(socket_->get())) return State::kEnded;
  UniqueFd own_file;
  UniqueFd peer_file;
  RingMemory own = server_.rings_->own.take(&own_file);
  RingMemory peer = server_.rings_->peer.take(&peer_file);
  server_.rings_.reset();
  Welcome welcome = server_.welcome_;
  welcome.features = own_features();
  *connection = std::make_unique<ShmConnection>(socket_, std::move(own), std::move(peer), peer_,
                                                introduce(welcome, opening_, welcome, client_, where()),
                                                opening_.device, server_.options_);
  const std::array<int, 2> files = {own_file.get(), peer_file.get()};
  const Sent sent = send_packet(socket_->get(), encode(welcome), files, where());
  return sent == Sent::kSent ? State::kConnected : State::kEnded;
}

}  // namespace

std::unique_ptr<Listener> shm_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const ShmOptions& options, LogCallback log, Serves serves) {
  check_options(options);
  auto socket = std::make_unique<ShmServerSocket>(address, want_data, free_data, options, std::move(log), serves);
  return std::make_unique<SocketListener>(std::move(socket), "this shm listener", options.handshake_timeout);
}

namespace {

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const ShmOptions& options) : options_(options) { check_options(options); }
  std::string_view scheme() const noexcept override { return "shm"; }
  Ways ways() const noexcept override { return kWays; }
  bool needs_sealed_files() const noexcept override { return options_.any_user || !options_.other_users.empty(); }
  void check_address(const std::string& address) const override { check_address_to_listen_at(address, options_); }
  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback log) const override {
    // Clients only send requests and frees: bodies and regions are accepted from no client.
    ShmOptions options = options_;
    options.max_body = 0;
    options.max_regions = 0;
    return shm_listen(address, want_data, free_data, options, std::move(log));
  }
  bool has_peers() const noexcept override { return true; }
  std::unique_ptr<Listener> listen_for_peers(const std::string& address, LogCallback log) const override {
    return shm_listen(address, 0, 0, options_, std::move(log), Serves::kPeers);
  }
  std::unique_ptr<Connection> connect(const std::string& address, const ConnectOptions& wishes, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return shm_connect(address, options_, timeout_ms, interrupted, wishes);
  }

 private:
  const ShmOptions options_;
};

}  // namespace

std::shared_ptr<const Transport> make_shm_transport(const ShmOptions& options) {
  return std::make_shared<const ShmTransport>(options);
}

}  // namespace crossdock::transport
