#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "crossdock/device/arena.h"
#include "session/charged_stream.h"
#include "session/published_table.h"
#include "transport/body_memory.h"

namespace crossdock::session {

/// Counts the memory of a relay's tables against its limit. Thread-safe.
class RelayMemory {
 public:
  using SizeOf = std::function<std::uint64_t(const PublishedTable&)>;
  /// Withdraws tables that aren't held, until they have taken `needed` by `size_of`. Returns false if all of them take
  /// less. Called without the lock of this.
  using Evict = std::function<bool(std::uint64_t needed, const SizeOf& size_of)>;
  /// `most_regions`: the limit of memory files that tables lie in.
  RelayMemory(std::uint64_t limit, std::uint64_t most_regions, Evict evict)
      : limit_(limit), most_regions_(most_regions), evict_(std::move(evict)) {}

  /// Counts bytes that are about to be used. Evicts until there is room for them. Throws ResourceError, which names
  /// `name`, if there is none; nothing is counted then.
  void take(std::uint64_t bytes, const std::string& name);
  void release(std::uint64_t bytes) noexcept;
  /// Counts one memory file that is about to be made, likewise.
  void take_region(const std::string& name);
  void release_region() noexcept;
  /// Makes counted bytes and a counted memory file those of a table, which are released when its last owner drops it.
  /// May throw std::bad_alloc; they are then counted as before.
  void keep(std::uint64_t bytes, const std::shared_ptr<const PublishedTable>& table);
  std::uint64_t used();
  std::uint64_t limit() const noexcept { return limit_; }

 private:
  struct Kept {
    std::weak_ptr<const PublishedTable> table;
    std::uint64_t bytes;
    std::uint64_t regions;
  };
  bool room(std::uint64_t more, std::uint64_t limit, std::uint64_t* used);
  void drop_gone() noexcept;

  const std::uint64_t limit_;
  const std::uint64_t most_regions_;
  const Evict evict_;
  std::mutex mutex_;
  std::map<const PublishedTable*, Kept> kept_;
  std::uint64_t used_ = 0;
  std::uint64_t regions_ = 0;
};

/// Receives the bodies of one table into an arena of a runtime, and counts them before they are received. Counts, too,
/// what is made of them otherwise. Thread-safe.
class FetchMemory final : public transport::BodyMemory {
 public:
  /// Counts `expected` bytes and a memory file at once. Throws ResourceError.
  FetchMemory(std::shared_ptr<RelayMemory> memory, std::shared_ptr<device::Arena> arena, std::string name,
              std::uint64_t expected);
  ~FetchMemory() override;
  FetchMemory(const FetchMemory&) = delete;
  FetchMemory& operator=(const FetchMemory&) = delete;

  std::shared_ptr<std::byte> allocate(std::uint64_t size) override;
  /// Counts a batch, before the table has it: bodies that are shared with the upstream, and messages without a body,
  /// need no allocate(). Throws ResourceError.
  void charge(const BatchCost& batch);
  /// Makes what was counted that of the table that was received. Throws ResourceError if the table takes more, because
  /// bodies were decompressed, and there is no room for that.
  void keep(const std::shared_ptr<const PublishedTable>& table);

 private:
  void count(std::uint64_t needed);

  const std::shared_ptr<RelayMemory> memory_;
  const std::shared_ptr<device::Arena> arena_;
  const std::string name_;
  std::mutex mutex_;
  std::uint64_t allocated_ = 0;
  BatchCost charged_;
  std::uint64_t counted_ = 0;
  bool kept_ = false;
};

}  // namespace crossdock::session
