#include "transport/internal/socket_listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "crossdock/core/error.h"

namespace crossdock::transport {
namespace {

constexpr int kAcceptsPerTurn = 8;
constexpr std::chrono::milliseconds kBackoff{200};
// At most so many handshakes become ready or end in one turn. One that needs more bytes costs little, and doesn't
// count.
constexpr int kFinishedPerTurn = 8;

UniqueFd open_reserve() noexcept { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

/// Accepts the next client. Empty on failure, with errno set.
UniqueFd accept_at(int listener) noexcept {
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace

SocketListener::SocketListener(std::unique_ptr<ServerSocket> socket, const char* what,
                               std::chrono::milliseconds timeout)
    : socket_(std::move(socket)),
      where_(socket_->where()),
      what_(what),
      timeout_(timeout),
      poll_(socket_->descriptor(), where_),
      reserve_(open_reserve()) {}

std::unique_ptr<Connection> SocketListener::accept() {
  fork_.check(what_);
  const bool waits = poll_.look();
  // First, because make_room() must not reject a client whose handshake message has already arrived.
  advance_all();
  if (!has_work() && (backoff_ ? Clock::now() >= *backoff_ : waits)) {
    if (!reserve_) reserve_ = open_reserve();
    for (int i = 0; i < kAcceptsPerTurn && accept_one(); ++i) {
    }
    advance_all();
    make_room();
  }
  if (clients_.empty() && std::exchange(idle_due_, false)) socket_->idle();
  std::unique_ptr<Connection> connection = complete_oldest();
  await_events();
  return connection;
}

/// Whether there is work for the next call already.
bool SocketListener::has_work() const noexcept {
  return std::ranges::any_of(clients_,
                             [](const Client& client) { return client.state == State::kReady || client.news; });
}

/// Whether every place is taken by a rejection that is delayed: then no client can be accepted.
bool SocketListener::full() const noexcept {
  return clients_.size() >= kMaxHandshakes &&
         std::ranges::all_of(clients_, [](const Client& client) { return client.rejection.has_value(); });
}

/// Reads what clients have sent, and drops those whose time is over. Stops after kFinishedPerTurn.
void SocketListener::advance_all() {
  const auto now = Clock::now();
  int left = kFinishedPerTurn;
  for (auto next = clients_.begin(); next != clients_.end() && left > 0;) {
    const auto client = next++;
    if (client->state == State::kReady) continue;
    if (std::exchange(client->news, false)) attempt(*client, [&] { return client->handshake->read(); });
    if (client->state == State::kWaiting && now >= client->deadline) {
      const std::string late = "no handshake arrived within " + std::to_string(timeout_.count()) + " ms";
      reject(*client->handshake, client->rejection.value_or(Rejection{{Refusal::kMalformed, late}}));
      client->state = State::kEnded;
    }
    if (client->state != State::kWaiting) --left;
    if (client->state == State::kEnded) drop(client);
  }
}

/// Does a step of a client's handshake. If it throws, rejects the client, at once or later.
template <typename Step>
void SocketListener::attempt(Client& client, Step step) const {
  const bool was_ready = client.state == State::kReady;
  std::optional<Rejection> rejection;
  try {
    client.state = step();
  } catch (const Rejection& thrown) {
    rejection = thrown;
  } catch (const ProtocolError& error) {
    rejection = {{Refusal::kMalformed, error.what()}};
  } catch (const Error& error) {
    rejection = {{Refusal::kResources, error.what()}};
  } catch (const std::bad_alloc&) {
    rejection = {{Refusal::kResources, "the server has no memory"}};
  }
  if (rejection && rejection->delay.count() > 0) {
    client.state = State::kWaiting;
    client.deadline = Clock::now() + rejection->delay;
    client.rejection = std::move(rejection);
    // Messages of the client, or its disconnect, change nothing until then.
    poll_.forget(client.handshake->descriptor());
  } else if (rejection) {
    client.state = State::kEnded;
    reject(*client.handshake, *rejection);
  } else if (client.state == State::kEnded) {
    socket_->say(LogLevel::kInfo, client.handshake->where() + (was_ready ? " disconnected during its handshake"
                                                                         : " disconnected without a handshake"));
  }
}

/// Accepts one client from the system's queue. Returns false if there is none, or none can be accepted now.
bool SocketListener::accept_one() {
  if (full()) return false;
  if (const char* const obstacle = socket_->obstacle()) {
    back_off(obstacle);
    return false;
  }
  UniqueFd client = accept_at(socket_->descriptor());
  const int error = client ? 0 : errno;
  if (client || error == EAGAIN) backoff_.reset();
  switch (error) {
    case 0:
      if (auto handshake = begin(std::move(client))) add(std::move(handshake));
      return true;
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

/// No descriptors are left, and a client waits. It would stay in the queue, and wake the server again and again. It is
/// accepted with the reserve descriptor and told the reason. If even that descriptor couldn't be used (the limit was
/// lowered, or another thread was faster), the client waits, and the server pauses before the next attempt.
void SocketListener::reject_without_descriptor() {
  reserve_.reset();
  UniqueFd client = accept_at(socket_->descriptor());
  const int error = client ? 0 : errno;
  if (client) {
    if (const auto handshake = begin(std::move(client))) {
      reject(*handshake, {Refusal::kResources, "the server is out of descriptors; raise its limit (ulimit -n)"});
    }
  }
  reserve_ = open_reserve();
  // EAGAIN means that there was no client after all. The system looks for a free descriptor first.
  if (error != 0 && error != EAGAIN) return back_off("it is out of descriptors; raise its limit (ulimit -n)");
  backoff_.reset();
}

/// Returns null if the client was lost.
std::unique_ptr<PendingHandshake> SocketListener::begin(UniqueFd client) {
  try {
    return socket_->begin(std::move(client));
  } catch (const Error& error) {
    socket_->say(LogLevel::kWarning, "a client of " + where_ + " was lost: " + error.what());
    return nullptr;
  }
}

void SocketListener::add(std::unique_ptr<PendingHandshake> handshake) {
  Client& client = clients_.emplace_back(Client{std::move(handshake), Clock::now() + timeout_});
  attempt(client, [&] {
    poll_.watch(client.handshake->descriptor(), &client.news);
    return State::kWaiting;
  });
  if (client.state == State::kEnded) drop(std::prev(clients_.end()));
}

/// Rejects the oldest clients if there are too many.
void SocketListener::make_room() {
  while (clients_.size() > kMaxHandshakes) {
    const auto oldest = std::ranges::find_if(clients_, [](const Client& client) { return !client.rejection; });
    if (oldest == clients_.end()) return;
    reject(*oldest->handshake, {Refusal::kResources, "too many handshakes are pending"});
    drop(oldest);
  }
}

void SocketListener::drop(std::list<Client>::iterator client) noexcept {
  if (!client->rejection) poll_.forget(client->handshake->descriptor());
  clients_.erase(client);
}

/// Does one step for the connection of the oldest client that is ready.
std::unique_ptr<Connection> SocketListener::complete_oldest() {
  const auto client = std::ranges::find(clients_, State::kReady, &Client::state);
  if (client == clients_.end()) return nullptr;
  std::unique_ptr<Connection> connection;
  if (reject_all_) {
    reject(*client->handshake, {Refusal::kResources, kServerFull});
    client->state = State::kEnded;
  } else {
    idle_due_ = true;
    attempt(*client, [&] { return client->handshake->complete(&connection); });
  }
  const State state = client->state;
  if (state == State::kConnected) idle_due_ = false;
  if (state == State::kConnected || state == State::kEnded) drop(client);
  return state == State::kConnected ? std::move(connection) : nullptr;
}

/// Makes descriptor() readable when the next call of accept() has something to do.
void SocketListener::await_events() {
  std::optional<Clock::time_point> deadline = backoff_;
  for (const Client& client : clients_) {
    if (client.state == State::kWaiting) deadline = std::min(deadline.value_or(client.deadline), client.deadline);
  }
  poll_.set_accepting(!backoff_ && !full());
  poll_.set_deadline(deadline);
  poll_.set_more(has_work() || (clients_.empty() && idle_due_));
}

void SocketListener::reject(PendingHandshake& handshake, const Refused& refused) const noexcept {
  try {
    socket_->say(LogLevel::kWarning, handshake.where() + " was rejected: " + refused.reason);
    handshake.send(refused);
  } catch (const std::exception&) {
    // The client sees that the connection is closed.
  }
}

/// Makes new clients wait because of a temporary problem: otherwise they would wake this listener again and again.
void SocketListener::back_off(const std::string& why) {
  if (!backoff_) socket_->say(LogLevel::kError, where_ + " can't accept clients for now: " + why);
  backoff_ = Clock::now() + kBackoff;
}

}  // namespace crossdock::transport
