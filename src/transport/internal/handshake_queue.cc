#include "transport/internal/handshake_queue.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "core/amounts.h"
#include "crossdock/core/error.h"

namespace crossdock::transport {
namespace {

// At most so many handshakes become ready or end in one turn. One that needs more bytes costs little, and doesn't
// count.
constexpr int kFinishedPerTurn = 8;
// Nor does one that computes long, as for TLS: the others have their turn after that.
constexpr std::chrono::microseconds kLongTurn{100};

std::uint64_t* counter_of(Refusal code, Rejections* all) noexcept {
  switch (code) {
    case Refusal::kOtherVersion: return &all->version;
    case Refusal::kNotAllowed: return &all->not_allowed;
    case Refusal::kMalformed: return &all->malformed;
    case Refusal::kMode:
    case Refusal::kChecksums: return &all->protection;
    case Refusal::kResources: break;
  }
  return &all->resources;
}

}  // namespace

bool HandshakeQueue::has_work() const noexcept {
  return std::ranges::any_of(clients_,
                             [](const Client& client) { return client.state == State::kReady || client.news; });
}

bool HandshakeQueue::has_ready() const noexcept {
  return std::ranges::find(clients_, State::kReady, &Client::state) != clients_.end();
}

bool HandshakeQueue::full() const noexcept {
  return clients_.size() >= kMaxHandshakes &&
         std::ranges::all_of(clients_, [](const Client& client) { return client.rejection.has_value(); });
}

void HandshakeQueue::advance() {
  const auto now = Clock::now();
  int left = kFinishedPerTurn;
  for (auto next = clients_.begin(); next != clients_.end() && left > 0;) {
    const auto client = next++;
    if (client->state == State::kReady) continue;
    bool was_long = false;
    if (std::exchange(client->news, false)) {
      const auto begun = Clock::now();
      attempt(*client, [&] { return client->handshake->read(); });
      // Clients that are rejected at once give their places back before others come.
      was_long = client->state != State::kEnded && Clock::now() - begun > kLongTurn;
    }
    if (client->state == State::kWaiting && now >= client->deadline) {
      const std::string late = "no handshake arrived within " + in_seconds(timeout_);
      if (client->rejection) {
        send(*client->handshake, *client->rejection);
      } else {
        reject_as(&rejections_.late, *client->handshake, {Refusal::kMalformed, late});
      }
      client->state = State::kEnded;
    }
    if (client->state != State::kWaiting) --left;
    if (client->state == State::kEnded) drop(client);
    if (was_long) return;
  }
}

/// Does a step of a client's handshake. If it throws, rejects the client, at once or later.
template <typename Step>
void HandshakeQueue::attempt(Client& client, Step step) {
  const bool was_ready = client.state == State::kReady;
  std::optional<Rejection> rejection;
  try {
    client.state = step();
  } catch (const Rejection& thrown) {
    rejection = thrown;
  } catch (const ProtocolError& error) {
    rejection = Rejection{{Refusal::kMalformed, error.what()}};
  } catch (const Error& error) {
    rejection = Rejection{{Refusal::kResources, error.what()}};
  } catch (const std::bad_alloc&) {
    rejection = Rejection{{Refusal::kResources, "the server has no memory"}};
  }
  if (rejection && rejection->delay.count() > 0) {
    ++*counter_of(rejection->code, &rejections_);
    client.state = State::kWaiting;
    client.deadline = Clock::now() + rejection->delay;
    client.rejection = std::move(rejection);
    // Messages of the client, or its disconnect, change nothing until then.
    poll_.forget(client.handshake->descriptor());
  } else if (rejection) {
    client.state = State::kEnded;
    reject(*client.handshake, *rejection);
  } else if (client.state == State::kEnded) {
    say(LogLevel::kInfo, client.handshake->where() +
                             (was_ready ? " disconnected during its handshake" : " disconnected without a handshake"));
  }
}

void HandshakeQueue::add(std::unique_ptr<PendingHandshake> handshake) {
  Client& client = clients_.emplace_back(Client{std::move(handshake), Clock::now() + timeout_});
  attempt(client, [&] {
    poll_.watch(client.handshake->descriptor(), &client.news);
    return State::kWaiting;
  });
  if (client.state == State::kEnded) drop(std::prev(clients_.end()));
}

void HandshakeQueue::make_room() {
  while (clients_.size() > kMaxHandshakes) {
    const auto oldest = std::ranges::find_if(clients_, [](const Client& client) { return !client.rejection; });
    if (oldest == clients_.end()) return;
    reject(*oldest->handshake, {Refusal::kResources, "too many handshakes are pending"});
    drop(oldest);
  }
}

void HandshakeQueue::drop(std::list<Client>::iterator client) noexcept {
  if (!client->rejection) poll_.forget(client->handshake->descriptor());
  clients_.erase(client);
}

std::unique_ptr<Connection> HandshakeQueue::complete_oldest(bool reject_all) {
  const auto client = std::ranges::find(clients_, State::kReady, &Client::state);
  if (client == clients_.end()) return nullptr;
  std::unique_ptr<Connection> connection;
  if (reject_all) {
    reject_as(&rejections_.full, *client->handshake, {Refusal::kResources, kServerFull});
    client->state = State::kEnded;
  } else {
    attempt(*client, [&] { return client->handshake->complete(&connection); });
  }
  const State state = client->state;
  if (state == State::kConnected || state == State::kEnded) drop(client);
  return state == State::kConnected ? std::move(connection) : nullptr;
}

std::optional<HandshakeQueue::Clock::time_point> HandshakeQueue::deadline() const noexcept {
  std::optional<Clock::time_point> first;
  for (const Client& client : clients_) {
    if (client.state == State::kWaiting) first = std::min(first.value_or(client.deadline), client.deadline);
  }
  return first;
}

void HandshakeQueue::prepare_wait() {
  for (auto next = clients_.begin(); next != clients_.end();) {
    const auto client = next++;
    if (client->state != State::kWaiting || client->rejection || client->news) continue;
    attempt(*client, [&] {
      client->news = !client->handshake->prepare_wait();
      if (const bool wants = client->handshake->wants_room(); wants != client->awaits_room) {
        poll_.await_room(client->handshake->descriptor(), &client->news, wants);
        client->awaits_room = wants;
      }
      return State::kWaiting;
    });
    if (client->state == State::kEnded) drop(client);
  }
}

void HandshakeQueue::reject(PendingHandshake& handshake, const Refused& refused) noexcept {
  reject_as(counter_of(refused.code, &rejections_), handshake, refused);
}

void HandshakeQueue::reject_as(std::uint64_t* reason, PendingHandshake& handshake, const Refused& refused) noexcept {
  ++*reason;
  try {
    say(LogLevel::kWarning, handshake.where() + " was rejected: " + refused.reason);
  } catch (const std::exception&) {
    return;  // The client sees that the connection is closed.
  }
  send(handshake, refused);
}

void HandshakeQueue::send(PendingHandshake& handshake, const Refused& refused) noexcept {
  try {
    handshake.send(refused);
  } catch (const std::exception&) {
    // The client sees that the connection is closed.
  }
}

}  // namespace crossdock::transport
