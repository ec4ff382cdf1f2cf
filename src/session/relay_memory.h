#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "crossdock/device/arena.h"
#include "session/published_table.h"
#include "transport/body_memory.h"

namespace crossdock::session {

/// Counts the memory of a relay's tables against its limit. Thread-safe.
class RelayMemory {
 public:
  /// Withdraws a table that isn't held. Returns false if there is none. Called with no lock held.
  using Evict = std::function<bool()>;
  RelayMemory(std::uint64_t limit, Evict evict) : limit_(limit), evict_(std::move(evict)) {}

  /// Counts bytes that are about to be used. Evicts until there is room for them. Throws ResourceError, which names
  /// `name`, if there is none; nothing is counted then.
  void take(std::uint64_t bytes, const std::string& name);
  void release(std::uint64_t bytes) noexcept;
  /// Makes counted bytes those of a table, which are released when its last owner drops it. May throw
  /// std::bad_alloc; they are then counted as before.
  void keep(std::uint64_t bytes, const std::shared_ptr<const PublishedTable>& table);
  std::uint64_t used();
  std::uint64_t limit() const noexcept { return limit_; }

 private:
  struct Kept {
    std::weak_ptr<const PublishedTable> table;
    std::uint64_t bytes;
  };
  void drop_gone() noexcept;

  const std::uint64_t limit_;
  const Evict evict_;
  std::mutex mutex_;
  std::vector<Kept> kept_;
  std::uint64_t used_ = 0;
};

/// Receives the bodies of one table into an arena of a runtime, and counts them before they are received. Thread-safe.
class FetchMemory final : public transport::BodyMemory {
 public:
  /// Counts `expected` bytes at once. Throws ResourceError.
  FetchMemory(std::shared_ptr<RelayMemory> memory, std::shared_ptr<device::Arena> arena, std::string name,
              std::uint64_t expected);
  ~FetchMemory() override { memory_->release(counted_); }
  FetchMemory(const FetchMemory&) = delete;
  FetchMemory& operator=(const FetchMemory&) = delete;

  std::shared_ptr<std::byte> allocate(std::uint64_t size) override;
  /// Makes what was counted that of the table that was received. Throws ResourceError if the table takes more, because
  /// bodies were decompressed or are shared with the upstream, and there is no room for that.
  void keep(const std::shared_ptr<const PublishedTable>& table);

 private:
  void count(std::uint64_t needed);

  const std::shared_ptr<RelayMemory> memory_;
  const std::shared_ptr<device::Arena> arena_;
  const std::string name_;
  std::mutex mutex_;
  std::uint64_t allocated_ = 0;
  std::uint64_t counted_ = 0;
};

}  // namespace crossdock::session
