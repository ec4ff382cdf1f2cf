#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "session/source_pool.h"
#include "transport/transport.h"

namespace crossdock::session {

/// A number of bytes in use, and its limit. Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t limit) noexcept : limit_(limit) {}
  /// Takes bytes. Returns false, and takes none, if this would exceed the limit.
  bool take(std::uint64_t bytes) noexcept;
  void take_beyond(std::uint64_t bytes) noexcept { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void give(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::uint64_t limit() const noexcept { return limit_; }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
};

/// A consumer as the server counts: a process of this machine with all its connections, identified by the kernel;
/// otherwise one connection. Counts the server's resources that the consumer's streams use. Thread-safe.
class Consumer {
 public:
  Consumer(std::uint64_t lease_limit, std::shared_ptr<SourcePool> sources)
      : lent_(lease_limit), waiting_(lease_limit), sources_(std::move(sources)) {}

  /// Regions of recycled memory of all its live streams.
  ByteBudget& lent() noexcept { return lent_; }
  /// Batches of all its live streams that wait to be sent by value.
  ByteBudget& waiting() noexcept { return waiting_; }
  /// Frees memory, and wakes sources that wait for memory.
  void give_lent(std::uint64_t bytes) noexcept;
  void give_waiting(std::uint64_t bytes) noexcept;

  SourcePool& sources() const noexcept { return *sources_; }
  const std::shared_ptr<SourceLane>& lane() const noexcept { return lane_; }
  /// Number of streams under way, of streams with outstanding leases, and of streams whose source is still in a call of
  /// its producer.
  std::uint32_t streams() const noexcept { return streams_.load(std::memory_order_relaxed); }
  /// Number of these sources that have no reader any more.
  std::uint32_t abandoned() const noexcept { return abandoned_.load(std::memory_order_relaxed); }
  void count_abandoned(int change) noexcept;

 private:
  friend class CountedStream;
  ByteBudget lent_;
  ByteBudget waiting_;
  const std::shared_ptr<SourcePool> sources_;
  const std::shared_ptr<SourceLane> lane_ = std::make_shared<SourceLane>();
  std::atomic<std::uint32_t> streams_{0};
  std::atomic<std::uint32_t> abandoned_{0};
};

/// Counts as one stream of its consumer during its lifetime.
class CountedStream {
 public:
  explicit CountedStream(std::shared_ptr<Consumer> consumer) : consumer_(std::move(consumer)) {
    consumer_->streams_.fetch_add(1, std::memory_order_relaxed);
  }
  ~CountedStream() { consumer_->streams_.fetch_sub(1, std::memory_order_relaxed); }
  CountedStream(const CountedStream&) = delete;
  CountedStream& operator=(const CountedStream&) = delete;
  const std::shared_ptr<Consumer>& consumer() const noexcept { return consumer_; }

 private:
  const std::shared_ptr<Consumer> consumer_;
};

/// The consumers that are connected, or whose sources haven't ended. Use it from one thread at a time.
class Consumers {
 public:
  Consumers(std::uint64_t lease_limit, std::shared_ptr<SourcePool> sources)
      : lease_limit_(lease_limit), sources_(std::move(sources)) {}
  /// Returns the consumer that a new connection belongs to.
  std::shared_ptr<Consumer> of(const transport::Agreement& peer);

 private:
  const std::uint64_t lease_limit_;
  const std::shared_ptr<SourcePool> sources_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::weak_ptr<Consumer>> known_;  // by process and user
};

}  // namespace crossdock::session
