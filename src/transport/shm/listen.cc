#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "../accept_poll.h"
#include "../accepting.h"
#include "address.h"
#include "crossdock/core/error.h"
#include "handshake.h"

namespace crossdock::transport {

namespace {

using namespace shm;  // NOLINT(google-build-using-namespace): the private half of this very layer

using Clock = std::chrono::steady_clock;
constexpr const char* kWhat = "this shm listener";
constexpr std::size_t kMaxHandshakes = 64;  // under way at once; the oldest is dropped for a new one
constexpr int kAcceptsPerTurn = 8;
constexpr int kOpeningsPerTurn = 8;
/// While this many sockets wait to be closed, no new client is accepted: each of them occupies a descriptor.
constexpr std::size_t kMostToClose = 64;

/// Size of the queue for a client that doesn't read its control socket. Descriptors in it count for the user: a few
/// such clients must not use up the user's limit for all queues (about as many as one process may open).
constexpr int kControlBytes = 8 << 10;

/// The reason why a client is rejected, and the code that it gets.
struct Rejection {
  Refusal code;
  std::string reason;
};

/// The memory of the next connection. It is made for the oldest client whose first packet is valid; if that client
/// disconnects, it is used for the next one.
class NextRings {
 public:
  explicit NextRings(std::uint64_t ring_bytes)
      : own_(RingMaker::End::kServer, ring_bytes), peer_(RingMaker::End::kClient, ring_bytes) {}
  /// Does one step. Returns true if both are made.
  bool step() {
    if (!own_made_) {
      own_made_ = own_.step();
      return false;
    }
    return peer_.step();
  }
  RingMemory take_own(UniqueFd* fd) { return own_.take(fd); }
  RingMemory take_peer(UniqueFd* fd) { return peer_.take(fd); }

 private:
  RingMaker own_;
  RingMaker peer_;
  bool own_made_ = false;
};

class ShmListener final : public Listener {
 public:
  ShmListener(const std::string& address, std::uint64_t want_data, std::uint64_t free_data, const ShmOptions& options,
              LogCallback log)
      : options_(options),
        want_data_(want_data),
        free_data_(free_data),
        log_(std::move(log)),
        file_(address, options),
        poll_(file_.descriptor(), file_.uri()),
        reserve_(open_reserve()) {}
  ~ShmListener() override;
  ShmListener(const ShmListener&) = delete;
  ShmListener& operator=(const ShmListener&) = delete;

  std::string uri() const override { return file_.uri(); }
  int descriptor() const noexcept override { return poll_.descriptor(); }
  std::unique_ptr<Connection> accept() override;
  std::size_t handshakes() const noexcept override { return pending_.size(); }
  void reject_all(bool on) override { reject_all_ = on; }

 private:
  struct PendingHandshake {
    std::shared_ptr<ControlSocket> socket;
    Credentials peer;
    std::string where;
    Clock::time_point deadline;
    bool news = true;                // its first packet may have arrived already
    std::optional<Hello> opening{};  // valid: the client waits for its rings
    AcceptPoll::Watch watch{};
  };

  void advance_all();
  bool accept_one();
  bool begin_handshake(UniqueFd socket);
  void reject_without_descriptor();
  void back_off(const std::string& why);
  bool advance(PendingHandshake& pending);
  bool read_opening(PendingHandshake& pending, const Packet& packet);
  std::list<PendingHandshake>::iterator next_ready();
  std::unique_ptr<Connection> complete_next();
  std::unique_ptr<Connection> complete(const PendingHandshake& pending);
  void reject(const PendingHandshake& pending, const Rejection& rejection) const noexcept;
  void say(LogLevel level, const std::string& text) const {
    if (log_) log_(level, text);
  }

  const ForkGuard fork_;
  const ShmOptions options_;
  const std::uint64_t want_data_;
  const std::uint64_t free_data_;
  const LogCallback log_;
  SocketFile file_;
  AcceptPoll poll_;
  UniqueFd reserve_;  // closed for a moment to reject a client when no descriptor is left
  AcceptBackoff backoff_;
  std::list<PendingHandshake> pending_;  // oldest first
  std::optional<NextRings> rings_;
  bool reject_all_ = false;
};

/// Clients in the queue are closed like other clients, by ControlSocket. If the system closed them with the listening
/// socket, it would also close the descriptors that they sent, on this thread.
ShmListener::~ShmListener() {
  if (fork_.in_child()) return;
  ::shutdown(file_.descriptor(), SHUT_RDWR);
  reserve_.reset();
  while (UniqueFd socket = accept_at(file_.descriptor())) ControlSocket::of_server(std::move(socket));
}

std::unique_ptr<Connection> ShmListener::accept() {
  fork_.check(kWhat);
  const bool waits = poll_.look();
  advance_all();
  const auto has_work = [this] {
    return std::ranges::any_of(pending_,
                               [](const PendingHandshake& pending) { return pending.opening || pending.news; });
  };
  // Advances the handshakes under way before it accepts new clients: so no client is dropped whose packet can be read.
  if (!has_work() && (waits || backoff_.on()) && backoff_.may_accept()) {
    if (!reserve_) reserve_ = open_reserve();
    for (int i = 0; i < kAcceptsPerTurn && accept_one(); ++i) {
    }
    advance_all();
  }
  if (pending_.empty()) rings_.reset();  // the client for which they were made has disconnected
  std::unique_ptr<Connection> connection = complete_next();
  std::optional<Clock::time_point> deadline;
  const auto silent = std::ranges::find_if(pending_, [](const PendingHandshake& pending) { return !pending.opening; });
  if (silent != pending_.end()) deadline = silent->deadline;
  if (backoff_.on()) deadline = std::min(deadline.value_or(backoff_.until()), backoff_.until());
  poll_.set_accepting(!backoff_.on());
  poll_.set_deadline(deadline);
  poll_.set_more(has_work() || (rings_ && pending_.empty()));
  return connection;
}

/// Reads the first packets that have arrived, a few per call, and drops clients that took too long.
void ShmListener::advance_all() {
  const auto now = Clock::now();
  int left = kOpeningsPerTurn;
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    bool done = false;
    if (!pending->opening && pending->news && left > 0) {
      --left;
      pending->news = false;
      done = !advance(*pending);
    }
    if (!done && !pending->opening && !pending->news && now >= pending->deadline) {
      done = true;
      reject(*pending, {Refusal::kMalformed,
                        "no handshake came within " + std::to_string(options_.handshake_timeout_ms) + " ms"});
    }
    pending = done ? pending_.erase(pending) : std::next(pending);
  }
}

/// Accepts one client from the socket's queue. Returns false if there is none, or none can be accepted now.
bool ShmListener::accept_one() {
  if (ControlSocket::waiting_to_close() >= kMostToClose) {
    back_off("clients have passed it descriptors that are slow to close; close their other ends, or end those clients");
    return false;
  }
  UniqueFd socket = accept_at(file_.descriptor());
  const int error = errno;
  if (socket || error == EAGAIN) backoff_.end();
  if (socket) return begin_handshake(std::move(socket));
  switch (error) {
    case EAGAIN: return false;
    case EINTR:
    case ECONNABORTED: return true;
    case EMFILE:
    case ENFILE: reject_without_descriptor(); return false;
    default: back_off(std::generic_category().message(error)); return false;
  }
}

/// Returns true, whether the client was accepted or rejected.
bool ShmListener::begin_handshake(UniqueFd socket) {
  PendingHandshake pending{ControlSocket::of_server(std::move(socket)),
                           {},
                           "",
                           Clock::now() + std::chrono::milliseconds(options_.handshake_timeout_ms)};
  try {
    pending.peer = peer_credentials(pending.socket->get(), "a client of shm:" + file_.path());
    if (::setsockopt(pending.socket->get(), SOL_SOCKET, SO_SNDBUF, &kControlBytes, sizeof kControlBytes) != 0) {
      throw_errno(errno, "setting up a client of shm:" + file_.path());
    }
  } catch (const Error& error) {
    say(LogLevel::kWarning, error.what());
    return true;
  }
  pending.where = "a client of " + name_peer(file_.path(), pending.peer);
  if (!user_allowed(pending.peer.uid, options_)) {
    reject(pending, {Refusal::kUser,
                     "user " + std::to_string(pending.peer.uid) +
                         " may not connect to this server; its owner can name that user in ShmOptions::other_users"});
    return true;
  }
  if (pending_.size() >= kMaxHandshakes) {
    reject(pending_.front(), {Refusal::kResources, "too many clients are shaking hands at once"});
    pending_.pop_front();
  }
  pending_.push_back(std::move(pending));
  try {
    pending_.back().watch = poll_.watch(pending_.back().socket->get(), &pending_.back().news);
  } catch (const Error& error) {
    reject(pending_.back(), {Refusal::kResources, error.what()});
    pending_.pop_back();
  }
  return true;
}

/// No descriptors are left, and a client waits. It would stay in the queue, and wake the server again and again. It is
/// accepted with the reserve descriptor and told the reason. If even that descriptor couldn't be used (the limit was
/// lowered, or another thread was faster), the client waits, and the server pauses before the next attempt.
void ShmListener::reject_without_descriptor() {
  reserve_.reset();
  UniqueFd socket = accept_at(file_.descriptor());
  const int error = socket ? 0 : errno;
  if (socket) {
    PendingHandshake pending{ControlSocket::of_server(std::move(socket)), {}, "a client of shm:" + file_.path(), {}};
    reject(pending, {Refusal::kResources, "the server is out of descriptors; raise its limit (ulimit -n)"});
  }
  reserve_ = open_reserve();
  // EAGAIN means that there was no client after all. The system looks for a free descriptor first.
  if (error != 0 && error != EAGAIN) return back_off("it is out of descriptors; raise its limit (ulimit -n)");
  backoff_.end();
}

/// Makes new clients wait because of a temporary problem.
void ShmListener::back_off(const std::string& why) {
  if (backoff_.begin()) say(LogLevel::kError, "shm:" + file_.path() + " can't accept clients for now: " + why);
}

/// Reads a client's first packet, if it has arrived. Returns false if the handshake has ended.
bool ShmListener::advance(PendingHandshake& pending) {
  try {
    Packet packet;
    switch (receive_plain_packet(pending.socket->get(), &packet, pending.where)) {
      case Received::kNothing: return true;
      case Received::kEnd: say(LogLevel::kInfo, pending.where + " left without a handshake"); return false;
      case Received::kPacket: break;
    }
    return read_opening(pending, packet);
  } catch (const Error& error) {
    reject(pending, {Refusal::kMalformed, error.what()});
  } catch (const std::bad_alloc&) {
    reject(pending, {Refusal::kResources, "no memory"});
  }
  return false;
}

bool ShmListener::read_opening(PendingHandshake& pending, const Packet& packet) {
  std::uint32_t version = 0;
  if (opening_of(packet.content(), &version) != Opening::kHello || packet.too_long) {
    reject(pending, {Refusal::kMalformed, "that was no opening of a Crossdock client"});
    return false;
  }
  if (version != kProtocolVersion) {
    reject(pending, {Refusal::kOtherVersion, "the client speaks version " + std::to_string(version) +
                                                 ", this server version " + std::to_string(kProtocolVersion)});
    return false;
  }
  Hello hello;
  if (!decode(packet.content(), &hello)) throw ProtocolError("the opening is too short");
  if (hello.max_message == 0) throw ProtocolError("the client takes no message of any size");
  if (hello.role > static_cast<std::uint32_t>(ChannelRole::kData)) {
    throw ProtocolError("the client asks for a connection of kind " + std::to_string(hello.role) +
                        "; known are 0 (metadata and bodies), 1 (metadata) and 2 (bodies)");
  }
  if (packet.left_in_queue) throw ProtocolError("the opening came with descriptors; it has none");
  pending.opening = hello;
  return true;
}

std::list<ShmListener::PendingHandshake>::iterator ShmListener::next_ready() {
  return std::ranges::find_if(pending_, [](const PendingHandshake& pending) { return pending.opening.has_value(); });
}

/// Does one step for the connection of the oldest client whose first packet is valid.
std::unique_ptr<Connection> ShmListener::complete_next() {
  const auto pending = next_ready();
  if (pending == pending_.end()) return nullptr;
  std::unique_ptr<Connection> connection;
  try {
    if (reject_all_) {
      reject(*pending, {Refusal::kResources, kServerFull});
    } else if (!rings_) {
      rings_.emplace(options_.ring_bytes);
      return nullptr;
    } else if (!rings_->step()) {
      return nullptr;
    } else if (peer_has_gone(pending->socket->get())) {
      say(LogLevel::kInfo, pending->where + " left during its handshake");
    } else {
      connection = complete(*pending);
    }
  } catch (const Error& error) {
    rings_.reset();
    reject(*pending, {Refusal::kResources, error.what()});
  } catch (const std::bad_alloc&) {
    rings_.reset();
    reject(*pending, {Refusal::kResources, "no memory"});
  }
  pending_.erase(pending);
  return connection;
}

std::unique_ptr<Connection> ShmListener::complete(const PendingHandshake& pending) {
  UniqueFd own_file;
  UniqueFd peer_file;
  RingMemory own = rings_->take_own(&own_file);
  RingMemory peer = rings_->take_peer(&peer_file);
  rings_.reset();
  auto connection = join(pending.socket, std::move(own), std::move(peer),
                         {.peer_features = pending.opening->features,
                          .max_message = std::min(options_.max_message, options_.max_request),
                          .peer_max_message = pending.opening->max_message,
                          .peer_max_body = pending.opening->max_body,
                          .role = static_cast<ChannelRole>(pending.opening->role),
                          .want_data = want_data_,
                          .free_data = free_data_,
                          .peer = pending.peer,
                          .where = pending.where},
                         options_);
  const Welcome welcome{.features = own_features(),
                        .ring_bytes = options_.ring_bytes,
                        .max_message = std::min(options_.max_message, options_.max_request),
                        .max_body = options_.max_body,
                        .want_data = want_data_,
                        .free_data = free_data_};
  try {
    const std::array<int, 2> files = {own_file.get(), peer_file.get()};
    if (send_packet(pending.socket->get(), encode(welcome), files, pending.where) == Sent::kSent) return connection;
    say(LogLevel::kInfo, pending.where + " left during its handshake");
  } catch (const Error& error) {
    reject(pending, {Refusal::kResources, error.what()});  // at once: destroying the connection shuts the socket down
  }
  return nullptr;
}

void ShmListener::reject(const PendingHandshake& pending, const Rejection& rejection) const noexcept {
  try {
    say(LogLevel::kWarning, pending.where + " was rejected: " + rejection.reason);
    send_packet(pending.socket->get(), encode(Refused{.code = rejection.code, .reason = rejection.reason}), {},
                pending.where);
  } catch (const std::exception&) {
    // The client sees that the connection is closed.
  }
}

}  // namespace

std::unique_ptr<Listener> shm_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const ShmOptions& options, LogCallback log) {
  check_options(options);
  return std::make_unique<ShmListener>(address, want_data, free_data, options, std::move(log));
}

namespace {

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const ShmOptions& options) : options_(options) { check_options(options); }
  std::string_view scheme() const noexcept override { return "shm"; }
  bool shares_with_others() const noexcept override { return options_.any_user || !options_.other_users.empty(); }
  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback log) const override {
    // Clients only send requests and frees: bodies and regions are accepted from no client.
    ShmOptions options = options_;
    options.max_body = 0;
    options.max_regions = 0;
    return shm_listen(address, want_data, free_data, options, std::move(log));
  }
  std::unique_ptr<Connection> connect(const std::string& address, ChannelRole role, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return shm_connect(address, options_, timeout_ms, interrupted, role);
  }

 private:
  const ShmOptions options_;
};

}  // namespace

std::shared_ptr<const Transport> make_shm_transport(const ShmOptions& options) {
  return std::make_shared<const ShmTransport>(options);
}

}  // namespace crossdock::transport
