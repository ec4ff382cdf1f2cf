#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/fork.h"
#include "device/region.h"
#include "dissociated/wire.h"
#include "session/observe.h"
#include "transport/transport.h"

namespace crossdock::session {

class ClientPool;

/// A client's connection. The reader that uses it and every batch received over it share its ownership: it stays open
/// until the last of these batches is released. free() and flush() are thread-safe; only the reader receives.
class ClientConnection {
 public:
  /// `pool`: where the connection waits between streams.
  ClientConnection(std::unique_ptr<transport::Connection> connection, std::string where,
                   std::weak_ptr<ClientPool> pool);
  ~ClientConnection();

  /// Called between streams: processes the server's messages about freed regions, and returns whether the server is
  /// still there. Also returns false if the server violates the protocol.
  bool still_good() noexcept;
  /// Sets the observer, or removes it if `observer` is empty. It sees each message that is sent here, and each one that
  /// received() is called with.
  void set_observer(WireObserver observer);
  /// Shows the observer a message that the reader took from transport().
  void received(const transport::Incoming& message) noexcept {
    if (observer_) [[unlikely]]
      show(Direction::kReceived, message.tagged, message.tag, message.bytes);
  }
  /// Requests a stream, after sending all frees so far. Between streams there is room for this: throws ConnectionError
  /// if the server doesn't read.
  void request(ByteSpan ticket);
  /// Called before a batch takes over addresses: makes room for all that may have to wait in free(). Throws
  /// std::bad_alloc. Called by the reader only.
  void expect(std::size_t addresses) {
    if (owed_.fetch_add(addresses, std::memory_order_relaxed) + addresses > room_) [[unlikely]]
      make_room(addresses);
  }
  /// Frees addresses that a batch no longer needs. Never blocks, never throws. Addresses that don't fit into the ring
  /// are sent by the next call. After the last batch, there may be no next call: a connection that waits in its pool
  /// with unsent addresses is then closed, and closing it frees everything. Does nothing in a forked child: the leases
  /// belong to the parent.
  void free(std::span<const std::uint64_t> addresses) noexcept;
  /// Sends the addresses that free() couldn't send. Never blocks.
  void flush() noexcept;
  /// Whether there are addresses left to send, and no batch whose release would send them.
  bool stuck() noexcept;
  /// Tells the server that the rest of the stream isn't needed. Best effort, never blocks: if the message can't be
  /// sent, the server learns it when the connection ends.
  void cancel() noexcept;

  transport::Connection& transport() noexcept { return *connection_; }
  const std::string& where() const noexcept { return where_; }
  const ForkGuard& made_in() const noexcept { return made_in_; }

 private:
  void make_room(std::size_t addresses);
  bool all_pending() const noexcept {
    return !pending_.empty() && pending_.size() == owed_.load(std::memory_order_relaxed);
  }
  bool hand_over(std::span<const std::uint64_t> addresses) noexcept;
  void send_pending();
  bool send_tagged(std::uint64_t tag, ByteSpan bytes);
  void show(Direction direction, bool tagged, std::uint64_t tag, ByteSpan bytes) noexcept;

  ForkGuard made_in_;
  const std::unique_ptr<transport::Connection> connection_;
  const std::size_t addresses_per_message_;
  std::string where_;
  const std::weak_ptr<ClientPool> pool_;
  WireObserver observer_;             // set between streams, under the mutex; only read otherwise
  std::atomic<std::size_t> owed_{0};  // addresses expected and not sent
  std::size_t room_ = 0;              // addresses for which `pending_` has capacity; of the reader
  std::mutex mutex_;                  // guards the sending half, `pending_`, and each decrease of `owed_`
  std::vector<std::uint64_t> pending_;
};

/// Keeps the memory of one received batch alive: its regions, and the addresses that are freed when the batch is
/// released, on any thread. expect() was called for the addresses before.
class BatchLease {
 public:
  explicit BatchLease(std::shared_ptr<ClientConnection> connection) noexcept : connection_(std::move(connection)) {}
  BatchLease(const BatchLease&) = delete;
  BatchLease& operator=(const BatchLease&) = delete;
  ~BatchLease() {
    if (n_addresses_ > 0) connection_->free({first(), n_addresses_});
  }

  /// Keeps a region alive and returns it.
  const transport::PeerRegion& add(std::shared_ptr<const transport::PeerRegion> region) {
    if (last_) others_.push_back(std::move(last_));
    last_ = std::move(region);
    return *last_;
  }
  /// Whether these bytes of the peer's are in one of the regions.
  bool in_one_region(std::uint64_t address, std::uint64_t length) const noexcept {
    const auto contains = [&](const auto& region) { return region->contains(address, length); };
    return (last_ && contains(last_)) || std::ranges::any_of(others_, contains);
  }
  /// Returns memory for up to `most` addresses of a body. Throws std::bad_alloc.
  std::uint64_t* begin(std::size_t most) {
    if (most > few_.size()) [[unlikely]]
      many_.resize(most);
    return first();
  }
  /// Takes over the addresses that were written there, the last of them before `end`. Call it once. Throws
  /// std::bad_alloc, and then has taken none.
  void take_over(const std::uint64_t* end) {
    const auto n = static_cast<std::size_t>(end - first());
    connection_->expect(n);
    n_addresses_ = n;
  }
  /// Leaves the addresses to the end of the connection, which frees them.
  void abandon() noexcept { n_addresses_ = 0; }

 private:
  std::uint64_t* first() noexcept { return many_.empty() ? few_.data() : many_.data(); }

  std::shared_ptr<ClientConnection> connection_;
  std::shared_ptr<const transport::PeerRegion> last_;  // most batches are in one region: no vector needed
  std::vector<std::shared_ptr<const transport::PeerRegion>> others_;
  std::size_t n_addresses_ = 0;        // taken over
  std::array<std::uint64_t, 32> few_;  // so that most batches need no vector
  std::vector<std::uint64_t> many_;
};

}  // namespace crossdock::session
