#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "crossdock/core/fork.h"
#include "crossdock/device/region.h"
#include "crossdock/dissociated/wire.h"
#include "crossdock/session/observe.h"
#include "crossdock/transport/transport.h"

namespace crossdock::session {

class ClientPool;

/// A client's connection, shared by the reader that drives it and by every batch that came over it: it stays until the
/// last of them is gone. free() and flush() are thread-safe; receiving belongs to the reader.
class ClientConnection {
 public:
  /// `pool`: where it waits between streams.
  ClientConnection(std::unique_ptr<transport::Connection> connection, std::string where,
                   std::weak_ptr<ClientPool> pool);
  ~ClientConnection();

  /// Between streams: takes note of what the server released, and tells whether it is still there. False also where it
  /// breaks the rules.
  bool still_good() noexcept;
  /// Who looks on from now on, if anybody: at what is sent here, and at what received() is told of.
  void set_observer(WireObserver observer);
  /// Shows the observer a message that the reader took from transport().
  void received(const transport::Incoming& message) noexcept {
    if (observer_) [[unlikely]]
      show(Direction::kReceived, message.tagged, message.tag, message.bytes);
  }
  /// Asks for a stream, after all that was freed so far. There is room between streams: ConnectionError if the
  /// server doesn't read.
  void request(ByteSpan ticket);
  /// Before a batch's addresses are taken over: makes room for all that may have to wait in free(). Throws
  /// std::bad_alloc.
  void expect(std::size_t addresses);
  /// Addresses that a batch no longer needs. Never blocks, never throws; what doesn't fit into the ring goes with the
  /// next call. Once nothing is held any more, no such call need come: a connection that waits in its pool with some
  /// left to say leaves it, for its end frees everything. Does nothing in a forked child: the leases are the
  /// parent's.
  void free(std::span<const std::uint64_t> addresses) noexcept;
  /// Sends what free() couldn't. Never blocks.
  void flush() noexcept;
  /// Whether there is something left to send, and no batch whose release would send it.
  bool stuck() noexcept;
  /// Nobody takes the rest of the stream under way. Best effort, never blocks: where it doesn't get through, the server
  /// learns it from the end of the connection.
  void cancel() noexcept;

  transport::Connection& transport() noexcept { return *connection_; }
  const std::string& where() const noexcept { return where_; }
  const ForkGuard& made_in() const noexcept { return made_in_; }

 private:
  bool hand_over(std::span<const std::uint64_t> addresses) noexcept;
  void send_pending();
  bool send_tagged(std::uint64_t tag, ByteSpan bytes);
  void show(Direction direction, bool tagged, std::uint64_t tag, ByteSpan bytes) noexcept;

  ForkGuard made_in_;
  std::unique_ptr<transport::Connection> connection_;
  std::string where_;
  const std::weak_ptr<ClientPool> pool_;
  WireObserver observer_;  // set between streams, under the mutex; only read otherwise
  std::mutex mutex_;       // the sending half, and:
  std::vector<std::uint64_t> pending_;
  std::size_t lent_ = 0;  // addresses expected and not freed
};

/// What keeps the memory of one received batch: the regions it lies in, and the addresses that go back when it is
/// released, on whatever thread. The connection expect()s the addresses.
class BatchLease {
 public:
  explicit BatchLease(std::shared_ptr<ClientConnection> connection) noexcept : connection_(std::move(connection)) {}
  BatchLease(const BatchLease&) = delete;
  BatchLease& operator=(const BatchLease&) = delete;
  ~BatchLease() {
    if (n_addresses_ > 0) connection_->free(addresses());
  }

  /// Keeps a region; returns it.
  const device::Region& add(std::shared_ptr<const device::Region> region) {
    if (last_) others_.push_back(std::move(last_));
    last_ = std::move(region);
    return *last_;
  }
  /// Takes over the addresses of a body, once. Absent buffers have none. Throws std::bad_alloc, and has taken none.
  void take_over(std::span<const dissociated::RemoteBuffer> buffers) {
    if (buffers.size() > few_.size()) many_.resize(buffers.size());
    std::uint64_t* const to = many_.empty() ? few_.data() : many_.data();
    std::size_t n = 0;
    for (const dissociated::RemoteBuffer& buffer : buffers) {
      if (buffer.address != 0) to[n++] = buffer.address;
    }
    connection_->expect(n);
    n_addresses_ = n;
  }

 private:
  std::span<const std::uint64_t> addresses() const noexcept {
    return {many_.empty() ? few_.data() : many_.data(), n_addresses_};
  }

  std::shared_ptr<ClientConnection> connection_;
  std::shared_ptr<const device::Region> last_;  // most batches lie in one region: it needs no vector
  std::vector<std::shared_ptr<const device::Region>> others_;
  std::size_t n_addresses_ = 0;
  std::array<std::uint64_t, 32> few_;  // so that most batches need no vector
  std::vector<std::uint64_t> many_;
};

}  // namespace crossdock::session
