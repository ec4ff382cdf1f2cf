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
constexpr std::size_t kMaxHandshakes = 64;  // under way at once; the oldest gives way to a new one
constexpr int kAcceptsPerTurn = 8;
constexpr int kOpeningsPerTurn = 8;
/// Sockets that wait to be closed, at which nobody else is let in: each takes a descriptor.
constexpr std::size_t kMostToClose = 64;

/// Of what waits for a client that doesn't read its control socket. Descriptors in it count against the user: a few
/// such clients must not use up what all may have under way (about as many as one process may open).
constexpr int kControlBytes = 8 << 10;

/// Why a client is turned away, and with which code it is told.
struct Turned {
  Refusal code;
  std::string reason;
};

/// The memory of the next connection. It is made for the oldest client whose opening is in order, and if that one
/// leaves, for the next.
class NextRings {
 public:
  explicit NextRings(std::uint64_t ring_bytes)
      : own_(RingMaker::End::kServer, ring_bytes), peer_(RingMaker::End::kClient, ring_bytes) {}
  /// True: both are made.
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
  std::size_t handshakes() const noexcept override { return guests_.size(); }
  void turn_away(bool everybody) override { no_place_ = everybody; }

 private:
  struct Guest {
    std::shared_ptr<ControlSocket> socket;
    Credentials peer;
    std::string where;
    Clock::time_point deadline;
    bool news = true;                // its opening may be there already
    std::optional<Hello> opening{};  // in order: it waits for its rings
    AcceptPoll::Watch watch{};
  };

  void greet_all();
  bool admit_one();
  bool admit(UniqueFd socket);
  void turn_away_without_descriptor();
  void rest(const std::string& why);
  bool greet(Guest& guest);
  bool read_opening(Guest& guest, const Packet& packet);
  std::list<Guest>::iterator next_to_welcome();
  std::unique_ptr<Connection> welcome_next();
  std::unique_ptr<Connection> welcome(const Guest& guest);
  void refuse(const Guest& guest, const Turned& turned) const noexcept;
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
  UniqueFd reserve_;  // given up for a moment to turn a client away when no descriptor is left
  Rest rest_;
  std::list<Guest> guests_;  // oldest first
  std::optional<NextRings> rings_;
  bool no_place_ = false;
};

/// Those who wait in the queue are closed as others are: the system would close what they have sent here and now.
ShmListener::~ShmListener() {
  if (fork_.in_child()) return;
  ::shutdown(file_.descriptor(), SHUT_RDWR);
  reserve_.reset();
  while (UniqueFd socket = accept_at(file_.descriptor())) ControlSocket::of_server(std::move(socket));
}

std::unique_ptr<Connection> ShmListener::accept() {
  fork_.check(kWhat);
  const bool waits = poll_.look();
  greet_all();
  const auto has_work = [this] {
    return std::ranges::any_of(guests_, [](const Guest& guest) { return guest.opening || guest.news; });
  };
  // Those who are here go first: nobody is turned away for a crowd whose openings lie ready.
  if (!has_work() && (waits || rest_.on()) && rest_.may_accept()) {
    if (!reserve_) reserve_ = open_reserve();
    for (int i = 0; i < kAcceptsPerTurn && admit_one(); ++i) {
    }
    greet_all();
  }
  if (guests_.empty()) rings_.reset();  // who they were made for has left, and nobody has come
  std::unique_ptr<Connection> connection = welcome_next();
  std::optional<Clock::time_point> deadline;
  const auto silent = std::ranges::find_if(guests_, [](const Guest& guest) { return !guest.opening; });
  if (silent != guests_.end()) deadline = silent->deadline;
  if (rest_.on()) deadline = std::min(deadline.value_or(rest_.until()), rest_.until());
  poll_.set_accepting(!rest_.on());
  poll_.set_deadline(deadline);
  poll_.set_more(has_work() || (rings_ && guests_.empty()));
  return connection;
}

/// Reads the openings that have come, a few at a time, and drops who has taken too long.
void ShmListener::greet_all() {
  const auto now = Clock::now();
  int left = kOpeningsPerTurn;
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    bool done = false;
    if (!guest->opening && guest->news && left > 0) {
      --left;
      guest->news = false;
      done = !greet(*guest);
    }
    if (!done && !guest->opening && !guest->news && now >= guest->deadline) {
      done = true;
      refuse(*guest, {Refusal::kMalformed,
                      "no handshake came within " + std::to_string(options_.handshake_timeout_ms) + " ms"});
    }
    guest = done ? guests_.erase(guest) : std::next(guest);
  }
}

/// Takes one client from the socket's queue. False: there is none, or none can be taken now.
bool ShmListener::admit_one() {
  if (ControlSocket::waiting_to_close() >= kMostToClose) {
    rest("clients have passed it descriptors that are slow to close; close their other ends, or end those clients");
    return false;
  }
  UniqueFd socket = accept_at(file_.descriptor());
  const int error = errno;
  if (socket || error == EAGAIN) rest_.end();
  if (socket) return admit(std::move(socket));
  switch (error) {
    case EAGAIN: return false;
    case EINTR:
    case ECONNABORTED: return true;
    case EMFILE:
    case ENFILE: turn_away_without_descriptor(); return false;
    default: rest(std::generic_category().message(error)); return false;
  }
}

/// True, whether the client came in or was turned away.
bool ShmListener::admit(UniqueFd socket) {
  Guest guest{ControlSocket::of_server(std::move(socket)),
              {},
              "",
              Clock::now() + std::chrono::milliseconds(options_.handshake_timeout_ms)};
  try {
    guest.peer = peer_credentials(guest.socket->get(), "a client of shm:" + file_.path());
    if (::setsockopt(guest.socket->get(), SOL_SOCKET, SO_SNDBUF, &kControlBytes, sizeof kControlBytes) != 0) {
      throw_errno(errno, "setting up a client of shm:" + file_.path());
    }
  } catch (const Error& error) {
    say(LogLevel::kWarning, error.what());
    return true;
  }
  guest.where = "a client of " + name_peer(file_.path(), guest.peer);
  if (!user_allowed(guest.peer.uid, options_)) {
    refuse(guest, {Refusal::kUser,
                   "user " + std::to_string(guest.peer.uid) +
                       " may not connect to this server; its owner can name that user in ShmOptions::other_users"});
    return true;
  }
  if (guests_.size() >= kMaxHandshakes) {
    refuse(guests_.front(), {Refusal::kResources, "too many clients are shaking hands at once"});
    guests_.pop_front();
  }
  guests_.push_back(std::move(guest));
  try {
    guests_.back().watch = poll_.watch(guests_.back().socket->get(), &guests_.back().news);
  } catch (const Error& error) {
    refuse(guests_.back(), {Refusal::kResources, error.what()});
    guests_.pop_back();
  }
  return true;
}

/// Out of descriptors, with a client waiting: it would stay in the queue, and wake the server again and again. It is
/// told so through the descriptor that is kept for that. Where even that one gave no room (the limit was lowered, or
/// another thread was quicker), the client waits, and the server rests instead of asking for ever.
void ShmListener::turn_away_without_descriptor() {
  reserve_.reset();
  UniqueFd socket = accept_at(file_.descriptor());
  const int error = socket ? 0 : errno;
  if (socket) {
    Guest guest{ControlSocket::of_server(std::move(socket)), {}, "a client of shm:" + file_.path(), {}};
    refuse(guest, {Refusal::kResources, "the server is out of descriptors; raise its limit (ulimit -n)"});
  }
  reserve_ = open_reserve();
  // EAGAIN: there was no client after all. The system looks for a descriptor first.
  if (error != 0 && error != EAGAIN) return rest("it is out of descriptors; raise its limit (ulimit -n)");
  rest_.end();
}

/// Nobody can be accepted now, for a reason that may go away. Those who knock wait.
void ShmListener::rest(const std::string& why) {
  if (rest_.begin()) say(LogLevel::kError, "shm:" + file_.path() + " can't accept clients for now: " + why);
}

/// Reads a client's opening, if it has come. False: the handshake is over.
bool ShmListener::greet(Guest& guest) {
  try {
    Packet packet;
    switch (receive_plain_packet(guest.socket->get(), &packet, guest.where)) {
      case Received::kNothing: return true;
      case Received::kEnd: say(LogLevel::kInfo, guest.where + " left without a handshake"); return false;
      case Received::kPacket: break;
    }
    return read_opening(guest, packet);
  } catch (const Error& error) {
    refuse(guest, {Refusal::kMalformed, error.what()});
  } catch (const std::bad_alloc&) {
    refuse(guest, {Refusal::kResources, "no memory"});
  }
  return false;
}

bool ShmListener::read_opening(Guest& guest, const Packet& packet) {
  std::uint32_t version = 0;
  if (opening_of(packet.content(), &version) != Opening::kHello || packet.too_long) {
    refuse(guest, {Refusal::kMalformed, "that was no opening of a Crossdock client"});
    return false;
  }
  if (version != kProtocolVersion) {
    refuse(guest, {Refusal::kOtherVersion, "the client speaks version " + std::to_string(version) +
                                               ", this server version " + std::to_string(kProtocolVersion)});
    return false;
  }
  Hello hello;
  if (!decode(packet.content(), &hello)) throw ProtocolError("the opening is too short");
  if (hello.max_message == 0) throw ProtocolError("the client takes no message of any size");
  if (hello.carries > static_cast<std::uint32_t>(Carries::kData)) {
    throw ProtocolError("the client asks for a connection of kind " + std::to_string(hello.carries) +
                        "; known are 0 (metadata and bodies), 1 (metadata) and 2 (bodies)");
  }
  if (packet.left_in_queue) throw ProtocolError("the opening came with descriptors; it has none");
  guest.opening = hello;
  return true;
}

std::list<ShmListener::Guest>::iterator ShmListener::next_to_welcome() {
  return std::ranges::find_if(guests_, [](const Guest& guest) { return guest.opening.has_value(); });
}

/// One step towards the connection of the oldest client whose opening is in order.
std::unique_ptr<Connection> ShmListener::welcome_next() {
  const auto guest = next_to_welcome();
  if (guest == guests_.end()) return nullptr;
  std::unique_ptr<Connection> connection;
  try {
    if (no_place_) {
      refuse(*guest, {Refusal::kResources, kNoPlace});
    } else if (!rings_) {
      rings_.emplace(options_.ring_bytes);
      return nullptr;
    } else if (!rings_->step()) {
      return nullptr;
    } else if (peer_has_gone(guest->socket->get())) {
      say(LogLevel::kInfo, guest->where + " left during its handshake");
    } else {
      connection = welcome(*guest);
    }
  } catch (const Error& error) {
    rings_.reset();
    refuse(*guest, {Refusal::kResources, error.what()});
  } catch (const std::bad_alloc&) {
    rings_.reset();
    refuse(*guest, {Refusal::kResources, "no memory"});
  }
  guests_.erase(guest);
  return connection;
}

std::unique_ptr<Connection> ShmListener::welcome(const Guest& guest) {
  UniqueFd own_file;
  UniqueFd peer_file;
  RingMemory own = rings_->take_own(&own_file);
  RingMemory peer = rings_->take_peer(&peer_file);
  rings_.reset();
  auto connection = join(guest.socket, std::move(own), std::move(peer),
                         {.peer_features = guest.opening->features,
                          .max_message = std::min(options_.max_message, options_.max_request),
                          .peer_max_message = guest.opening->max_message,
                          .peer_max_body = guest.opening->max_body,
                          .carries = static_cast<Carries>(guest.opening->carries),
                          .want_data = want_data_,
                          .free_data = free_data_,
                          .peer = guest.peer,
                          .where = guest.where},
                         options_);
  const Welcome welcome{.features = own_features(),
                        .ring_bytes = options_.ring_bytes,
                        .max_message = std::min(options_.max_message, options_.max_request),
                        .max_body = options_.max_body,
                        .want_data = want_data_,
                        .free_data = free_data_};
  try {
    const std::array<int, 2> files = {own_file.get(), peer_file.get()};
    if (send_packet(guest.socket->get(), encode(welcome), files, guest.where) == Sent::kSent) return connection;
    say(LogLevel::kInfo, guest.where + " left during its handshake");
  } catch (const Error& error) {
    refuse(guest, {Refusal::kResources, error.what()});  // now: the connection shuts the socket down when it goes
  }
  return nullptr;
}

void ShmListener::refuse(const Guest& guest, const Turned& turned) const noexcept {
  try {
    say(LogLevel::kWarning, guest.where + " was turned away: " + turned.reason);
    send_packet(guest.socket->get(), encode(Refused{.code = turned.code, .reason = turned.reason}), {}, guest.where);
  } catch (const std::exception&) {
    // It will see the connection close.
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
    // Clients of a server ask and give back: what else they send is taken from nobody.
    ShmOptions options = options_;
    options.max_body = 0;
    options.max_regions = 0;
    return shm_listen(address, want_data, free_data, options, std::move(log));
  }
  std::unique_ptr<Connection> connect(const std::string& address, Carries carries, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return shm_connect(address, options_, timeout_ms, interrupted, carries);
  }

 private:
  const ShmOptions options_;
};

}  // namespace

std::shared_ptr<const Transport> make_shm_transport(const ShmOptions& options) {
  return std::make_shared<const ShmTransport>(options);
}

}  // namespace crossdock::transport
