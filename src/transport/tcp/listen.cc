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
constexpr std::size_t kMaxHandshakes = 64;  // under way at once; the oldest is dropped for a new one
constexpr int kAcceptsPerTurn = 8;
constexpr int kBacklog = SOMAXCONN;  // limited by the system; a client that is dropped there tries again after a second
/// A client with a wrong token waits this long for the answer, and occupies a handshake meanwhile. So an attacker gets
/// at most kMaxHandshakes guesses in this time.
constexpr std::chrono::milliseconds kWrongTokenDelay{1000};
/// At most this many wrong tokens of one peer wait at once, so that handshakes are left for other peers. While that
/// many wait, none of the peer's tokens is checked, right or wrong, so that the answer reveals nothing.
constexpr std::ptrdiff_t kMaxWrongTokensPerPeer = kMaxHandshakes / 4;

/// The reason why a client is rejected, and the code that it gets.
struct Rejection {
  Refusal code;
  std::string reason;
};

/// A client whose handshake is under way.
struct PendingHandshake {
  std::unique_ptr<Socket> socket;
  Endpoint peer;
  std::string where;
  Clock::time_point deadline;
  RecordReader reader;
  std::vector<std::byte> opening{};      // its HELLO, after the challenge was sent
  std::vector<std::byte> challenge{};    // of this server
  std::optional<Rejection> rejection{};  // sent at the deadline
  bool news = true;                      // its first record may have arrived already
  AcceptPoll::Watch watch{};             // empty once it was rejected
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

/// Listens at the first address of the name for which this succeeds.
UniqueFd listen_socket(const HostPort& address, const TcpOptions& options) {
  const bool every_address = address.host == "*";
  std::vector<Endpoint> endpoints = resolve(address);
  if (every_address) {
    const std::vector<Endpoint> v4 = resolve({"0.0.0.0", address.port});  // for machines without IPv6
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
  std::size_t handshakes() const noexcept override { return pending_.size(); }
  void reject_all(bool on) override { reject_all_ = on; }

 private:
  std::unique_ptr<Connection> advance_all();
  bool accept_one();
  bool full() const;
  void reject_without_descriptor();
  void back_off(const std::string& why);
  std::unique_ptr<Connection> advance(PendingHandshake& pending, bool* done);
  std::unique_ptr<Connection> answer(PendingHandshake& pending, bool* done);
  void ask_for_proof(PendingHandshake& pending, const Hello& hello, bool* done);
  std::unique_ptr<Connection> check_proof(PendingHandshake& pending, bool* done);
  std::unique_ptr<Connection> complete(PendingHandshake& pending, const Hello& hello);
  void reject(const PendingHandshake& pending, const Rejection& rejection) const;
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
  UniqueFd reserve_;  // closed for a moment to reject a client when no descriptor is left
  AcceptBackoff backoff_;
  std::string where_;
  std::string uri_;
  std::list<PendingHandshake> pending_;  // oldest first
  bool reject_all_ = false;
};

std::unique_ptr<Connection> TcpListener::accept() {
  fork_.check(kWhat);
  const bool waits = poll_.look();
  // Advances the handshakes under way before it accepts new clients: so no client is dropped whose record can be read.
  std::unique_ptr<Connection> connection = advance_all();
  if (!connection && (waits || backoff_.on()) && backoff_.may_accept()) {
    if (!reserve_) reserve_ = open_reserve();
    for (int i = 0; i < kAcceptsPerTurn && accept_one(); ++i) {
    }
    connection = advance_all();
  }
  std::optional<Clock::time_point> deadline;
  if (!pending_.empty()) deadline = std::ranges::min_element(pending_, {}, &PendingHandshake::deadline)->deadline;
  if (backoff_.on()) deadline = std::min(deadline.value_or(backoff_.until()), backoff_.until());
  poll_.set_accepting(!backoff_.on() && !full());
  poll_.set_deadline(deadline);
  return connection;
}

/// Advances the handshakes that have news, until one is complete.
std::unique_ptr<Connection> TcpListener::advance_all() {
  const auto now = Clock::now();
  std::unique_ptr<Connection> connection;
  for (auto pending = pending_.begin(); pending != pending_.end() && !connection;) {
    bool done = false;
    if (std::exchange(pending->news, false) && !pending->rejection) connection = advance(*pending, &done);
    if (!done && now >= pending->deadline) {
      reject(*pending, pending->rejection
                           ? *pending->rejection
                           : Rejection{Refusal::kMalformed, "no handshake came within " +
                                                                std::to_string(options_.handshake_timeout_ms) + " ms"});
      done = true;
    }
    pending = done ? pending_.erase(pending) : std::next(pending);
  }
  return connection;
}

/// Accepts one client from the system's queue. Returns false if there is none, or none can be accepted now.
bool TcpListener::accept_one() {
  if (full()) return false;
  UniqueFd socket = accept_at(socket_.get());
  const int error = errno;
  if (socket || error == EAGAIN) backoff_.end();
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
      case ENFILE: reject_without_descriptor(); return false;
      default: back_off(std::generic_category().message(error)); return false;
    }
  }
  try {
    const Endpoint peer = peer_endpoint(socket.get());
    const std::string where = to_uri(peer);
    set_up(socket.get(), options_, where);
    if (pending_.size() >= kMaxHandshakes) {
      const auto oldest =
          std::ranges::find_if(pending_, [](const PendingHandshake& pending) { return !pending.rejection; });
      reject(*oldest, {Refusal::kResources, "too many clients are shaking hands at once"});
      pending_.erase(oldest);
    }
    auto pending = std::make_unique<Socket>(std::move(socket), where);
    const auto deadline = Clock::now() + std::chrono::milliseconds(options_.handshake_timeout_ms);
    pending_.push_back(PendingHandshake{std::move(pending), peer, where, deadline, {}});
    try {
      pending_.back().watch = poll_.watch(pending_.back().socket->get(), &pending_.back().news);
    } catch (const Error& reason) {
      reject(pending_.back(), {Refusal::kResources, reason.what()});
      pending_.pop_back();
    }
  } catch (const Error& reason) {
    say(LogLevel::kWarning, std::string("a client of ") + where_ + " was lost: " + reason.what());
  }
  return true;
}

/// Whether every pending handshake was rejected and waits for its answer to be sent: then no client can be accepted.
bool TcpListener::full() const {
  return pending_.size() >= kMaxHandshakes &&
         std::ranges::all_of(pending_, [](const PendingHandshake& pending) { return pending.rejection.has_value(); });
}

/// No descriptors are left, and a client waits. It would stay in the queue, and wake the server again and again. It is
/// accepted with the reserve descriptor and told the reason. If even that descriptor couldn't be used (the limit was
/// lowered, or another thread was faster), the client waits, and the server pauses before the next attempt.
void TcpListener::reject_without_descriptor() {
  reserve_.reset();
  int error = 0;
  {
    const UniqueFd client = accept_at(socket_.get());
    error = client ? 0 : errno;
    if (client) {
      say(LogLevel::kWarning, where_ + " is out of descriptors and rejected a client: raise the limit (ulimit -n)");
      const std::vector<std::byte> record = encode(Refused{
          .code = Refusal::kResources, .reason = "the server is out of descriptors; raise its limit (ulimit -n)"});
      ::send(client.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      shut_down(client.get());
    }
  }
  reserve_ = open_reserve();
  if (error != 0 && error != EAGAIN) return back_off("it is out of descriptors; raise its limit (ulimit -n)");
  backoff_.end();
}

void TcpListener::back_off(const std::string& why) {
  if (backoff_.begin()) say(LogLevel::kError, where_ + " can't accept clients for now: " + why);
}

/// Advances a client's handshake. Sets `*done` if it has ended, successfully or not.
std::unique_ptr<Connection> TcpListener::advance(PendingHandshake& pending, bool* done) {
  try {
    switch (pending.reader.read(*pending.socket)) {
      case RecordReader::State::kNothing: return nullptr;
      case RecordReader::State::kEnd:
        *done = true;
        say(LogLevel::kInfo, pending.where + " left without a handshake");
        return nullptr;
      case RecordReader::State::kForeign: throw ProtocolError("that was no opening of a Crossdock client");
      case RecordReader::State::kRecord: return answer(pending, done);
    }
  } catch (const ResourceError& error) {
    reject(pending, {Refusal::kResources, error.what()});
  } catch (const Error& error) {
    reject(pending, {Refusal::kMalformed, error.what()});
  }
  *done = true;
  return nullptr;
}

std::unique_ptr<Connection> TcpListener::answer(PendingHandshake& pending, bool* done) {
  const Preamble preamble = pending.reader.preamble();
  if (!pending.challenge.empty()) {
    if (preamble.type != RecordType::kProof) throw ProtocolError("no proof of the token came");
    return check_proof(pending, done);
  }
  *done = true;
  if (preamble.type != RecordType::kHello) throw ProtocolError("that was no opening of a Crossdock client");
  if (preamble.version != kProtocolVersion) {
    reject(pending, {Refusal::kOtherVersion, "the client speaks version " + std::to_string(preamble.version) +
                                                 ", this server version " + std::to_string(kProtocolVersion)});
    return nullptr;
  }
  if (preamble.mode != Mode::kPlain) {
    reject(pending, {Refusal::kMode, "the client asks for a connection in mode " +
                                         std::to_string(static_cast<std::uint32_t>(preamble.mode)) +
                                         "; this server offers plain ones (0) only"});
    return nullptr;
  }
  Hello hello;
  if (!decode(pending.reader.record(), &hello)) throw ProtocolError("the opening is too short");
  if (is_damaged(pending.reader.record(), hello)) {
    throw ProtocolError("the opening arrived damaged: its CRC-32C isn't that of its bytes; check the network");
  }
  if (hello.max_message == 0) throw ProtocolError("the client takes no message of any size");
  if (hello.role > static_cast<std::uint32_t>(ChannelRole::kData)) {
    throw ProtocolError("the client asks for a connection of kind " + std::to_string(hello.role) +
                        "; known are 0 (metadata and bodies), 1 (metadata) and 2 (bodies)");
  }
  if (options_.token.empty()) return complete(pending, hello);
  ask_for_proof(pending, hello, done);
  return nullptr;
}

void TcpListener::ask_for_proof(PendingHandshake& pending, const Hello& hello, bool* done) {
  if (!hello.has_token) {
    reject(pending, {Refusal::kToken, "this server needs a token, and the client has none"});
    return;
  }
  pending.opening = pending.reader.next();
  pending.challenge = encode(Challenge{make_nonce()});
  *done = !send_record(*pending.socket, pending.challenge);
  if (*done) say(LogLevel::kInfo, pending.where + " left during its handshake");
}

std::unique_ptr<Connection> TcpListener::check_proof(PendingHandshake& pending, bool* done) {
  *done = true;
  const auto rejection = std::ranges::count_if(
      pending_, [&](const PendingHandshake& other) { return other.rejection && same_peer(other.peer, pending.peer); });
  if (rejection >= kMaxWrongTokensPerPeer) {
    reject(pending, {Refusal::kResources, "too many wrong tokens came from this address; try again in a second"});
    return nullptr;
  }
  TokenProof given;
  if (!decode(pending.reader.record(), &given)) throw ProtocolError("the proof is too short");
  const std::array<ByteSpan, 2> records = {pending.opening, pending.challenge};
  if (!same(given.proof, prove(options_.token, kClientRole, records))) {
    say(LogLevel::kWarning, pending.where + " gave a wrong token");
    *done = false;
    pending.rejection = Rejection{Refusal::kToken, "the token is wrong"};
    pending.deadline = Clock::now() + kWrongTokenDelay;
    pending.watch = {};  // messages of the client, or its disconnect, change nothing until then
    return nullptr;
  }
  Hello hello;
  if (!decode(pending.opening, &hello)) throw ProtocolError("the opening is too short");
  return complete(pending, hello);
}

std::unique_ptr<Connection> TcpListener::complete(PendingHandshake& pending, const Hello& hello) {
  if (reject_all_) {
    reject(pending, {Refusal::kResources, kServerFull});
    return nullptr;
  }
  const std::uint64_t features = own_features(options_);
  if (options_.checksum == Checksum::kOn && !use_checksums(features, hello.features)) {
    reject(pending,
           {Refusal::kChecksums,
            "this server demands checksums, and the client offers none: upgrade it, or don't switch them off"});
    return nullptr;
  }
  Welcome welcome{.features = features,
                  .max_message = std::min(options_.max_message, options_.max_request),
                  .max_body = options_.max_body,
                  .want_data = want_data_,
                  .free_data = free_data_};
  std::vector<std::byte> record = encode(welcome);
  if (!pending.challenge.empty()) {
    const std::array<ByteSpan, 3> records = {pending.opening, pending.challenge, proven_part(record)};
    welcome.proof = prove(options_.token, kServerRole, records);
    record = encode(welcome);
  }
  // The client is told any error thrown here: `pending` keeps a descriptor of its own until the welcome was sent.
  auto connection = join(pending.socket->duplicate(),
                         {.own_features = features,
                          .peer_features = hello.features,
                          .max_message = std::min(options_.max_message, options_.max_request),
                          .peer_max_message = hello.max_message,
                          .peer_max_body = hello.max_body,
                          .role = static_cast<ChannelRole>(hello.role),
                          .want_data = want_data_,
                          .free_data = free_data_,
                          .where = pending.where},
                         options_);
  if (!send_record(*pending.socket, record)) {
    say(LogLevel::kInfo, pending.where + " left during its handshake");
    return nullptr;
  }
  return connection;
}

void TcpListener::reject(const PendingHandshake& pending, const Rejection& rejection) const {
  say(LogLevel::kWarning, pending.where + " was rejected: " + rejection.reason);
  try {
    send_record(*pending.socket, encode(Refused{.code = rejection.code, .reason = rejection.reason}));
    shut_down(pending.socket->get());
  } catch (const Error&) {
    // The client sees that the connection is closed.
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
    // Clients only send requests and frees: bodies are accepted from no client.
    TcpOptions options = options_;
    options.max_body = 0;
    return tcp_listen(address, want_data, free_data, options, std::move(log));
  }
  std::unique_ptr<Connection> connect(const std::string& address, ChannelRole role, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return tcp_connect(address, options_, timeout_ms, interrupted, role);
  }

 private:
  const TcpOptions options_;
};

}  // namespace

std::shared_ptr<const Transport> make_tcp_transport(const TcpOptions& options) {
  return std::make_shared<const TcpTransport>(options);
}

}  // namespace crossdock::transport
