#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <list>
#include <optional>
#include <system_error>
#include <utility>

#include "../accept_poll.h"
#include "../accepting.h"
#include "address.h"
#include "crossdock/core/error.h"
#include "crossdock/core/fork.h"
#include "handshake.h"
#include "socket_options.h"

namespace crossdock::transport {

namespace {

using namespace tcp;  // NOLINT(google-build-using-namespace): the private half of this very layer

using Clock = std::chrono::steady_clock;
constexpr const char* kWhat = "this tcp listener";
constexpr std::size_t kMaxHandshakes = 64;  // under way at once; the oldest gives way to a new one
constexpr int kAcceptsPerTurn = 8;
constexpr int kBacklog = SOMAXCONN;  // the system bounds it: what is dropped there comes again after a second
/// Who gave a wrong token waits so long for the answer, and keeps a place in the handshakes: so a guesser gets no more
/// than kMaxHandshakes guesses in this time.
constexpr std::chrono::milliseconds kWrongTokenDelay{1000};
/// Of one peer's wrong tokens no more wait so at once: what is left is for others. While they do, none of that peer's
/// tokens is looked at, right or wrong, so that the answer says nothing.
constexpr std::ptrdiff_t kMaxWrongTokensPerPeer = kMaxHandshakes / 4;

/// Why a client is turned away, and with which code it is told.
struct Turned {
  Refusal code;
  std::string reason;
};

/// A client whose handshake is under way.
struct Guest {
  std::unique_ptr<Socket> socket;
  Endpoint peer;
  std::string where;
  Clock::time_point deadline;
  RecordReader reader;
  std::vector<std::byte> opening{};    // its HELLO, once the challenge is out
  std::vector<std::byte> challenge{};  // ours
  std::optional<Turned> turned{};      // it is told at the deadline
  bool news = true;                    // its opening may be there already
  AcceptPoll::Watch watch{};           // none once it was turned
};

UniqueFd listen_at(const Endpoint& endpoint, bool every_address, const TcpOptions& options, int* error) {
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

/// Listens at the first of the name's addresses that can be listened at.
UniqueFd listen_socket(const HostPort& address, const TcpOptions& options) {
  const bool every_address = address.host == "*";
  std::vector<Endpoint> endpoints = resolve(address);
  if (every_address) {
    const std::vector<Endpoint> v4 = resolve({"0.0.0.0", address.port});  // where there is no IPv6
    endpoints.insert(endpoints.end(), v4.begin(), v4.end());
  }
  int error = 0;
  for (const Endpoint& endpoint : endpoints) {
    UniqueFd socket = listen_at(endpoint, every_address, options, &error);
    if (socket) return socket;
  }
  const std::string where = to_uri(address.host.empty() ? "127.0.0.1" : address.host, address.port);
  switch (error) {
    case EADDRINUSE:
      throw ConnectionError("can't listen at " + where + ": another process does; take port 0 to have one picked");
    case EADDRNOTAVAIL: throw ConnectionError("can't listen at " + where + ": this machine has no such address");
    case EACCES: throw PermissionError("can't listen at " + where + ": this user may not take that port");
    default: throw_errno(error, "listening at " + where);
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw_errno(errno, "asking for the host's name");
  return name.data();
}

class TcpListener final : public Listener {
 public:
  TcpListener(const std::string& address, std::uint64_t want_data, std::uint64_t free_data, const TcpOptions& options,
              LogCallback log)
      : options_(options),
        want_data_(want_data),
        free_data_(free_data),
        log_(std::move(log)),
        socket_(listen_socket(parse_address(address), options)),
        poll_(socket_.get(), "a tcp listener"),
        reserve_(open_reserve()) {
    const Endpoint bound = local_endpoint(socket_.get());
    where_ = to_uri(bound);
    if (is_wildcard(bound)) {
      const std::string host = options.advertised_host.empty() ? host_name() : options.advertised_host;
      uri_ = to_uri(host, port_of(bound));
      say(LogLevel::kInfo, "listening at every address of this machine, port " + std::to_string(port_of(bound)));
    } else {
      uri_ = where_;
    }
  }

  std::string uri() const override { return uri_; }
  int descriptor() const noexcept override { return poll_.descriptor(); }
  std::unique_ptr<Connection> accept() override;
  std::size_t handshakes() const noexcept override { return guests_.size(); }
  void turn_away(bool everybody) override { no_place_ = everybody; }

 private:
  std::unique_ptr<Connection> greet_all();
  bool admit_one();
  bool full() const;
  void turn_away_without_descriptor();
  void rest(const std::string& why);
  std::unique_ptr<Connection> greet(Guest& guest, bool* done);
  std::unique_ptr<Connection> answer(Guest& guest, bool* done);
  void ask_for_proof(Guest& guest, const Hello& hello, bool* done);
  std::unique_ptr<Connection> check_proof(Guest& guest, bool* done);
  std::unique_ptr<Connection> welcome(Guest& guest, const Hello& hello);
  void refuse(const Guest& guest, const Turned& turned) const;
  void say(LogLevel level, const std::string& text) const {
    if (log_) log_(level, text);
  }

  const ForkGuard fork_;
  const TcpOptions options_;
  const std::uint64_t want_data_;
  const std::uint64_t free_data_;
  const LogCallback log_;
  const UniqueFd socket_;
  AcceptPoll poll_;
  UniqueFd reserve_;  // given up for a moment to turn a client away when no descriptor is left
  Rest rest_;
  std::string where_;
  std::string uri_;
  std::list<Guest> guests_;  // oldest first
  bool no_place_ = false;
};

std::unique_ptr<Connection> TcpListener::accept() {
  fork_.check(kWhat);
  const bool waits = poll_.look();
  // Those who are here go first: nobody is turned away for a crowd whose openings lie ready.
  std::unique_ptr<Connection> connection = greet_all();
  if (!connection && (waits || rest_.on()) && rest_.may_accept()) {
    if (!reserve_) reserve_ = open_reserve();
    for (int i = 0; i < kAcceptsPerTurn && admit_one(); ++i) {
    }
    connection = greet_all();
  }
  std::optional<Clock::time_point> deadline;
  if (!guests_.empty()) deadline = std::ranges::min_element(guests_, {}, &Guest::deadline)->deadline;
  if (rest_.on()) deadline = std::min(deadline.value_or(rest_.until()), rest_.until());
  poll_.set_accepting(!rest_.on() && !full());
  poll_.set_deadline(deadline);
  return connection;
}

/// Goes on with the handshakes that have news, until one is complete.
std::unique_ptr<Connection> TcpListener::greet_all() {
  const auto now = Clock::now();
  std::unique_ptr<Connection> connection;
  for (auto guest = guests_.begin(); guest != guests_.end() && !connection;) {
    bool done = false;
    if (std::exchange(guest->news, false) && !guest->turned) connection = greet(*guest, &done);
    if (!done && now >= guest->deadline) {
      refuse(*guest, guest->turned
                         ? *guest->turned
                         : Turned{Refusal::kMalformed,
                                  "no handshake came within " + std::to_string(options_.handshake_timeout_ms) + " ms"});
      done = true;
    }
    guest = done ? guests_.erase(guest) : std::next(guest);
  }
  return connection;
}

/// Takes one client from the system's queue. False: there is none, or none can be taken now.
bool TcpListener::admit_one() {
  if (full()) return false;
  UniqueFd socket = accept_at(socket_.get());
  const int error = errno;
  if (socket || error == EAGAIN) rest_.end();
  if (!socket) {
    switch (error) {
      case EAGAIN: return false;
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case ENETDOWN:
      case EHOSTUNREACH:
      case ENETUNREACH: return true;
      case EMFILE:
      case ENFILE: turn_away_without_descriptor(); return false;
      default: rest(std::generic_category().message(error)); return false;
    }
  }
  try {
    const Endpoint peer = peer_endpoint(socket.get());
    const std::string where = to_uri(peer);
    set_up(socket.get(), options_, where);
    if (guests_.size() >= kMaxHandshakes) {
      const auto oldest = std::ranges::find_if(guests_, [](const Guest& guest) { return !guest.turned; });
      refuse(*oldest, {Refusal::kResources, "too many clients are shaking hands at once"});
      guests_.erase(oldest);
    }
    auto guest = std::make_unique<Socket>(std::move(socket), where);
    const auto deadline = Clock::now() + std::chrono::milliseconds(options_.handshake_timeout_ms);
    guests_.push_back(Guest{std::move(guest), peer, where, deadline, {}});
    try {
      guests_.back().watch = poll_.watch(guests_.back().socket->get(), &guests_.back().news);
    } catch (const Error& reason) {
      refuse(guests_.back(), {Refusal::kResources, reason.what()});
      guests_.pop_back();
    }
  } catch (const Error& reason) {
    say(LogLevel::kWarning, std::string("a client of ") + where_ + " was lost: " + reason.what());
  }
  return true;
}

/// Whether nobody can be let in, since every guest gave a wrong token and stays until told.
bool TcpListener::full() const {
  return guests_.size() >= kMaxHandshakes &&
         std::ranges::all_of(guests_, [](const Guest& guest) { return guest.turned.has_value(); });
}

/// Out of descriptors, with a client waiting: it would stay in the queue, and wake the server again and again. It is
/// told so through the descriptor that is kept for that. Where even that one gave no room (the limit was lowered, or
/// another thread was quicker), the client waits, and the server rests instead of asking for ever.
void TcpListener::turn_away_without_descriptor() {
  reserve_.reset();
  int error = 0;
  {
    const UniqueFd turned = accept_at(socket_.get());
    error = turned ? 0 : errno;
    if (turned) {
      say(LogLevel::kWarning, where_ + " is out of descriptors and turned a client away: raise the limit (ulimit -n)");
      const std::vector<std::byte> record = encode(Refused{
          .code = Refusal::kResources, .reason = "the server is out of descriptors; raise its limit (ulimit -n)"});
      ::send(turned.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      shut_down(turned.get());
    }
  }
  reserve_ = open_reserve();
  if (error != 0 && error != EAGAIN) return rest("it is out of descriptors; raise its limit (ulimit -n)");
  rest_.end();
}

void TcpListener::rest(const std::string& why) {
  if (rest_.begin()) say(LogLevel::kError, where_ + " can't accept clients for now: " + why);
}

/// Goes on with a client's handshake. `*done`: it is over, well or badly.
std::unique_ptr<Connection> TcpListener::greet(Guest& guest, bool* done) {
  try {
    switch (guest.reader.read(*guest.socket)) {
      case RecordReader::State::kNothing: return nullptr;
      case RecordReader::State::kEnd:
        *done = true;
        say(LogLevel::kInfo, guest.where + " left without a handshake");
        return nullptr;
      case RecordReader::State::kForeign: throw ProtocolError("that was no opening of a Crossdock client");
      case RecordReader::State::kRecord: return answer(guest, done);
    }
  } catch (const ResourceError& error) {
    refuse(guest, {Refusal::kResources, error.what()});
  } catch (const Error& error) {
    refuse(guest, {Refusal::kMalformed, error.what()});
  }
  *done = true;
  return nullptr;
}

std::unique_ptr<Connection> TcpListener::answer(Guest& guest, bool* done) {
  const Preamble preamble = guest.reader.preamble();
  if (!guest.challenge.empty()) {
    if (preamble.type != RecordType::kProof) throw ProtocolError("no proof of the token came");
    return check_proof(guest, done);
  }
  *done = true;
  if (preamble.type != RecordType::kHello) throw ProtocolError("that was no opening of a Crossdock client");
  if (preamble.version != kProtocolVersion) {
    refuse(guest, {Refusal::kOtherVersion, "the client speaks version " + std::to_string(preamble.version) +
                                               ", this server version " + std::to_string(kProtocolVersion)});
    return nullptr;
  }
  if (preamble.mode != Mode::kPlain) {
    refuse(guest, {Refusal::kMode, "the client asks for a connection in mode " +
                                       std::to_string(static_cast<std::uint32_t>(preamble.mode)) +
                                       "; this server offers plain ones (0) only"});
    return nullptr;
  }
  Hello hello;
  if (!decode(guest.reader.record(), &hello)) throw ProtocolError("the opening is too short");
  if (is_damaged(guest.reader.record(), hello)) {
    throw ProtocolError("the opening arrived damaged: its CRC-32C isn't that of its bytes; check the network");
  }
  if (hello.max_message == 0) throw ProtocolError("the client takes no message of any size");
  if (hello.carries > static_cast<std::uint32_t>(Carries::kData)) {
    throw ProtocolError("the client asks for a connection of kind " + std::to_string(hello.carries) +
                        "; known are 0 (metadata and bodies), 1 (metadata) and 2 (bodies)");
  }
  if (options_.token.empty()) return welcome(guest, hello);
  ask_for_proof(guest, hello, done);
  return nullptr;
}

void TcpListener::ask_for_proof(Guest& guest, const Hello& hello, bool* done) {
  if (!hello.has_token) {
    refuse(guest, {Refusal::kToken, "this server needs a token, and the client has none"});
    return;
  }
  guest.opening = guest.reader.next();
  guest.challenge = encode(Challenge{make_nonce()});
  *done = !send_record(*guest.socket, guest.challenge);
  if (*done) say(LogLevel::kInfo, guest.where + " left during its handshake");
}

std::unique_ptr<Connection> TcpListener::check_proof(Guest& guest, bool* done) {
  *done = true;
  const auto turned = std::ranges::count_if(
      guests_, [&](const Guest& other) { return other.turned && same_peer(other.peer, guest.peer); });
  if (turned >= kMaxWrongTokensPerPeer) {
    refuse(guest, {Refusal::kResources, "too many wrong tokens came from this address; try again in a second"});
    return nullptr;
  }
  TokenProof given;
  if (!decode(guest.reader.record(), &given)) throw ProtocolError("the proof is too short");
  const std::array<ByteSpan, 2> records = {guest.opening, guest.challenge};
  if (!same(given.proof, prove(options_.token, kClientRole, records))) {
    say(LogLevel::kWarning, guest.where + " gave a wrong token");
    *done = false;
    guest.turned = Turned{Refusal::kToken, "the token is wrong"};
    guest.deadline = Clock::now() + kWrongTokenDelay;
    guest.watch = {};  // what it sends meanwhile, or that it leaves, changes nothing
    return nullptr;
  }
  Hello hello;
  if (!decode(guest.opening, &hello)) throw ProtocolError("the opening is too short");
  return welcome(guest, hello);
}

std::unique_ptr<Connection> TcpListener::welcome(Guest& guest, const Hello& hello) {
  if (no_place_) {
    refuse(guest, {Refusal::kResources, kNoPlace});
    return nullptr;
  }
  const std::uint64_t features = own_features(options_);
  if (options_.checksum == Checksum::kOn && !use_checksums(features, hello.features)) {
    refuse(guest, {Refusal::kChecksums,
                   "this server demands checksums, and the client offers none: upgrade it, or don't switch them off"});
    return nullptr;
  }
  Welcome welcome{.features = features,
                  .max_message = std::min(options_.max_message, options_.max_request),
                  .max_body = options_.max_body,
                  .want_data = want_data_,
                  .free_data = free_data_};
  std::vector<std::byte> record = encode(welcome);
  if (!guest.challenge.empty()) {
    const std::array<ByteSpan, 3> records = {guest.opening, guest.challenge, proven_part(record)};
    welcome.proof = prove(options_.token, kServerRole, records);
    record = encode(welcome);
  }
  // What this throws is told to the client: the guest keeps a descriptor of its own until the welcome is out.
  auto connection = join(guest.socket->duplicate(),
                         {.own_features = features,
                          .peer_features = hello.features,
                          .max_message = std::min(options_.max_message, options_.max_request),
                          .peer_max_message = hello.max_message,
                          .peer_max_body = hello.max_body,
                          .carries = static_cast<Carries>(hello.carries),
                          .want_data = want_data_,
                          .free_data = free_data_,
                          .where = guest.where},
                         options_);
  if (!send_record(*guest.socket, record)) {
    say(LogLevel::kInfo, guest.where + " left during its handshake");
    return nullptr;
  }
  return connection;
}

void TcpListener::refuse(const Guest& guest, const Turned& turned) const {
  say(LogLevel::kWarning, guest.where + " was turned away: " + turned.reason);
  try {
    send_record(*guest.socket, encode(Refused{.code = turned.code, .reason = turned.reason}));
    shut_down(guest.socket->get());
  } catch (const Error&) {
    // It will see the connection close.
  }
}

}  // namespace

std::unique_ptr<Listener> tcp_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const TcpOptions& options, LogCallback log) {
  check_options(options);
  return std::make_unique<TcpListener>(address, want_data, free_data, options, std::move(log));
}

namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TcpOptions& options) : options_(options) { check_options(options); }
  std::string_view scheme() const noexcept override { return "tcp"; }
  bool shares_with_others() const noexcept override { return false; }
  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback log) const override {
    // Clients of a server ask and give back: bodies are taken from nobody.
    TcpOptions options = options_;
    options.max_body = 0;
    return tcp_listen(address, want_data, free_data, options, std::move(log));
  }
  std::unique_ptr<Connection> connect(const std::string& address, Carries carries, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return tcp_connect(address, options_, timeout_ms, interrupted, carries);
  }

 private:
  const TcpOptions options_;
};

}  // namespace

std::shared_ptr<const Transport> make_tcp_transport(const TcpOptions& options) {
  return std::make_shared<const TcpTransport>(options);
}

}  // namespace crossdock::transport
