#include "session/client_connection.h"

#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "session/client_pool.h"

namespace crossdock::session {
namespace {

// Of one free_data message. A server may accept only shorter messages.
constexpr std::size_t kMaxAddresses = 4096;

std::size_t addresses_per_message(const transport::Connection& connection) noexcept {
  const std::uint64_t most = connection.max_message() / sizeof(std::uint64_t);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(most, 1, kMaxAddresses));
}

}  // namespace

ClientConnection::ClientConnection(std::unique_ptr<transport::Connection> connection, std::string where,
                                   std::weak_ptr<ClientPool> pool)
    : connection_(std::move(connection)),
      addresses_per_message_(addresses_per_message(*connection_)),
      where_(std::move(where)),
      pool_(std::move(pool)) {}

ClientConnection::~ClientConnection() = default;

bool ClientConnection::still_good() noexcept {
  try {
    return !connection_->receive();  // no message may arrive between streams
  } catch (const std::exception&) {
    return false;
  }
}

void ClientConnection::set_observer(WireObserver observer) {
  const std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
}

void ClientConnection::show(Direction direction, bool tagged, std::uint64_t tag, ByteSpan bytes) noexcept {
  try {
    observer_({direction, tagged, tag, bytes, connection_->agreement()});
  } catch (...) {
    // Errors of an observer are ignored.
  }
}

bool ClientConnection::send_tagged(std::uint64_t tag, ByteSpan bytes) {
  if (!connection_->send_tagged(tag, bytes, {})) return false;
  if (observer_) [[unlikely]]
    show(Direction::kSent, true, tag, bytes);
  return true;
}

void ClientConnection::request(ByteSpan ticket) {
  // Must come first: the new stream may name regions again whose batches are released from now on. Leases of batches
  // that were released before are freed before the request, so their regions aren't named again.
  connection_->keep_regions();
  const std::lock_guard lock(mutex_);
  send_pending();
  if (!pending_.empty() || !send_tagged(connection_->agreement().want_data, ticket)) {
    throw ConnectionError("the server at " + where_ + " doesn't read the messages of this client");
  }
}

void ClientConnection::make_room(std::size_t addresses) {
  const std::lock_guard lock(mutex_);
  try {
    const std::size_t room = 2 * owed_.load(std::memory_order_relaxed);
    pending_.reserve(room);
    room_ = room;
  } catch (...) {
    owed_.fetch_sub(addresses, std::memory_order_relaxed);
    throw;
  }
}

void ClientConnection::free(std::span<const std::uint64_t> addresses) noexcept {
  if (made_in_.in_child()) return;
  if (!hand_over(addresses)) return;
  if (const auto pool = pool_.lock()) pool->drop(*this);  // the batch still owns this connection
}

// Frees addresses, or keeps them in `pending_`. Returns whether the connection is stuck().
bool ClientConnection::hand_over(std::span<const std::uint64_t> addresses) noexcept {
  const std::lock_guard lock(mutex_);
  const std::optional<std::uint64_t>& free_data = connection_->agreement().free_data;
  if (!free_data) {
    owed_.fetch_sub(addresses.size(), std::memory_order_relaxed);
    return false;
  }
  try {
    if (pending_.empty() && addresses.size() <= addresses_per_message_ &&
        send_tagged(*free_data, std::as_bytes(addresses))) {
      owed_.fetch_sub(addresses.size(), std::memory_order_relaxed);
      return false;
    }
  } catch (const std::exception&) {
    // Either the server has disconnected, which frees everything, or there was no memory: then the next call sends
    // them.
  }
  pending_.insert(pending_.end(), addresses.begin(), addresses.end());  // expect() has reserved capacity
  try {
    send_pending();
  } catch (const std::exception&) {
    // The server has disconnected, which frees everything.
  }
  return all_pending();
}

bool ClientConnection::stuck() noexcept {
  const std::lock_guard lock(mutex_);
  return all_pending();
}

void ClientConnection::flush() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!pending_.empty()) send_pending();
  } catch (const std::exception&) {
    // The next receive() reports that the connection has ended.
  }
}

void ClientConnection::cancel() noexcept {
  if (made_in_.in_child() || !connection_->agreement().cancel) return;
  try {
    const std::lock_guard lock(mutex_);
    const dissociated::PrefixBytes message = dissociated::write_prefix(dissociated::MessageType::kEndOfStream, 0);
    if (connection_->send(message, {}) && observer_) show(Direction::kSent, false, 0, message);
  } catch (const std::exception&) {
    // The server has disconnected, which ends the stream.
  }
}

void ClientConnection::send_pending() {
  std::size_t sent = 0;
  const auto forget_sent = [&] {
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(sent));
    owed_.fetch_sub(sent, std::memory_order_relaxed);
  };
  try {
    while (sent < pending_.size()) {
      const auto part = std::span(pending_).subspan(sent, std::min(addresses_per_message_, pending_.size() - sent));
      if (!send_tagged(*connection_->agreement().free_data, std::as_bytes(part))) break;
      sent += part.size();
    }
  } catch (...) {
    forget_sent();
    throw;
  }
  forget_sent();
}

}  // namespace crossdock::session
