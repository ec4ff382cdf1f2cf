#include "session/relay_memory.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

constexpr std::uint64_t kAlignment = 64;  // an arena's
/// What a table takes at least: its memory file has whole pages.
constexpr std::uint64_t kPage = 4096;

}  // namespace

void RelayMemory::take(std::uint64_t bytes, const std::string& name) {
  for (;;) {
    std::uint64_t used = 0;
    {
      const std::lock_guard lock(mutex_);
      drop_gone();
      if (bytes <= limit_ && used_ <= limit_ - bytes) {
        used_ += bytes;
        return;
      }
      used = used_;
    }
    // What doesn't fit into an empty relay is no reason to drop what others use.
    if (bytes > limit_ || !evict_(bytes - (limit_ - used))) {
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

void RelayMemory::keep(std::uint64_t bytes, const std::shared_ptr<const PublishedTable>& table,
                       const std::string& name) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      drop_gone();
      if (regions_ + table->regions.size() <= most_regions_) {
        kept_[table.get()] = {table, bytes, table->regions.size()};
        regions_ += table->regions.size();
        return;
      }
    }
    if (!evict_(1)) {
      throw ResourceError("the relay holds tables in " + std::to_string(most_regions_) +
                          " memory files, as many as it may, and consumers hold them: " + shown(name) +
                          " has no place; raise the limit of open files (ulimit -n)");
    }
  }
}

std::uint64_t RelayMemory::size_of(const PublishedTable& table) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(&table);
  return found == kept_.end() ? 0 : found->second.bytes;
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
  count(expected);
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
  const std::uint64_t allocated = allocated_ + align_up(std::max<std::uint64_t>(size, 1), kAlignment);
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
                                 table->buffers.capacity() * sizeof(dissociated::RemoteBuffer);
  const std::uint64_t needed = std::max(bodies + messages, kPage);
  count(needed);
  memory_->keep(needed, table, name_);
  memory_->release(std::exchange(counted_, 0) - needed);
}

}  // namespace crossdock::session
