#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/region.h"

/// Memory that was received and that its owner may write to, because nobody else sees that: private mappings
/// (Region::map_private()), and memory of this process alone.
namespace crossdock::device {

/// Lists memory of this process alone as such memory, for as long as it lives. Use it on one thread at a time.
class PrivateMemory {
 public:
  PrivateMemory() = default;
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;
  ~PrivateMemory();
  /// Does nothing for bytes that are listed already. Throws std::bad_alloc.
  void add(const void* pointer, std::uint64_t size);

 private:
  std::vector<const void*> starts_;
};

/// Returns whether these bytes are in such memory. Thread-safe; takes a lock only while there is some.
bool in_private_memory(const void* pointer, std::uint64_t size) noexcept;

/// The memory that a peer sent, behind such memory or read-only.
struct ReceivedMemory {
  std::shared_ptr<const Region> region;  ///< With a descriptor.
  std::uint64_t offset = 0;              ///< Of the first byte in it.
};
/// Returns the region behind these bytes, or that they are in, if nobody has written to their pages: then the region
/// has the same bytes, and can be passed on in their place. The region doesn't keep the peer's lease on them.
/// Thread-safe.
std::optional<ReceivedMemory> received_memory(const void* pointer, std::uint64_t size);

/// Returns whether one of these bytes, which are in a private mapping of a file, may have been written to. Reads none
/// of them: asks the kernel which pages are the file's. Thread-safe.
bool pages_written(const void* pointer, std::uint64_t size) noexcept;

}  // namespace crossdock::device
