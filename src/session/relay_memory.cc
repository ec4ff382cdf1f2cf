#include "session/relay_memory.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

/// What a table takes at least: its memory file has whole pages.
constexpr std::uint64_t kLeastTableBytes = 4096;

}  // namespace

/// Counts more of what is limited if there is room for it.
bool RelayMemory::room(std::uint64_t more, std::uint64_t limit, std::uint64_t* used) {
  if (more > limit || *used > limit - more) return false;
  *used += more;
  return true;
}

void RelayMemory::take(std::uint64_t bytes, const std::string& name) {
  for (;;) {
    std::uint64_t used = 0;
    {
      const std::lock_guard lock(mutex_);
      drop_gone();
      if (room(bytes, limit_, &used_)) return;
      used = used_;
    }
    // What doesn't fit into an empty relay is no reason to drop what others use.
    const auto size_of = [this](const PublishedTable& table) {
      const std::lock_guard lock(mutex_);
      const auto found = kept_.find(&table);
      return found == kept_.end() ? 0 : found->second.bytes;
    };
    if (bytes > limit_ || !evict_(bytes - (limit_ - used), size_of)) {
      throw ResourceError("the relay's max_memory is " + std::to_string(limit_) + " bytes, of which consumers hold, " +
                          "or fetches under way use, " + std::to_string(used) + ", and " + shown(name) + " needs " +
                          std::to_string(bytes) + " more: release what isn't needed, or raise max_memory");
    }
  }
}

void RelayMemory::release(std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
}

void RelayMemory::take_region(const std::string& name) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      drop_gone();
      if (room(1, most_regions_, &regions_)) return;
    }
    if (!evict_(1, [](const PublishedTable& table) { return table.regions.size(); })) {
      throw ResourceError("the relay has tables in " + std::to_string(most_regions_) + " memory files, as many as it " +
                          "may, which consumers hold or fetches under way use: " + shown(name) + " has no place; " +
                          "release what isn't needed, or raise the limit of open files (ulimit -n)");
    }
  }
}

void RelayMemory::release_region() noexcept {
  const std::lock_guard lock(mutex_);
  --regions_;
}

void RelayMemory::keep(std::uint64_t bytes, const std::shared_ptr<const PublishedTable>& table) {
  const std::lock_guard lock(mutex_);
  drop_gone();  // one that is gone may have had the same address
  const std::uint64_t regions = table->regions.size();
  kept_[table.get()] = {table, bytes, regions};
  regions_ += regions;
  --regions_;  // the one that was counted before
}

std::uint64_t RelayMemory::used() {
  const std::lock_guard lock(mutex_);
  drop_gone();
  return used_;
}

void RelayMemory::drop_gone() noexcept {
  std::erase_if(kept_, [this](const auto& entry) {
    const Kept& kept = entry.second;
    if (!kept.table.expired()) return false;
    used_ -= kept.bytes;
    regions_ -= kept.regions;
    return true;
  });
}

FetchMemory::FetchMemory(std::shared_ptr<RelayMemory> memory, std::shared_ptr<device::Arena> arena, std::string name,
                         std::uint64_t expected)
    : memory_(std::move(memory)), arena_(std::move(arena)), name_(std::move(name)) {
  memory_->take_region(name_);
  try {
    count(expected);
  } catch (...) {
    memory_->release_region();
    throw;
  }
}

FetchMemory::~FetchMemory() {
  memory_->release(counted_);
  if (!kept_) memory_->release_region();
}

// Counts up to `needed` bytes in all.
void FetchMemory::count(std::uint64_t needed) {
  if (needed <= counted_) return;
  memory_->take(needed - counted_, name_);
  counted_ = needed;
}

std::shared_ptr<std::byte> FetchMemory::allocate(std::uint64_t size) {
  // Also bounds the sum below.
  if (size > memory_->limit()) memory_->take(size, name_);
  const std::lock_guard lock(mutex_);
  const std::uint64_t allocated = allocated_ + align_up(std::max<std::uint64_t>(size, 1), kBufferAlignment);
  count(std::max(allocated, charged_.buffers) + charged_.messages);
  std::shared_ptr<std::byte> bytes{arena_, arena_->allocate(size)};
  allocated_ = allocated;
  return bytes;
}

void FetchMemory::charge(const BatchCost& batch) {
  const std::lock_guard lock(mutex_);
  charged_.buffers += batch.buffers;
  charged_.messages += batch.messages;
  count(std::max(allocated_, charged_.buffers) + charged_.messages);
}

void FetchMemory::keep(const std::shared_ptr<const PublishedTable>& table) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t bodies = std::max(allocated_ + table->bytes_copied, table->bytes);
  const std::uint64_t messages = table->metadata.capacity() + table->messages.capacity() * sizeof(PublishedMessage) +
                                 table->buffers.capacity() * sizeof(dissociated::RemoteBuffer) +
                                 cost_of(*table->schema);
  const std::uint64_t needed = std::max(bodies + messages, kLeastTableBytes);
  count(needed);
  memory_->keep(needed, table);
  kept_ = true;
  memory_->release(std::exchange(counted_, 0) - needed);
}

}  // namespace crossdock::session
