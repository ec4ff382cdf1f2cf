#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "crossdock/core/fork.h"
#include "crossdock/core/unique_fd.h"
#include "ring.h"

namespace crossdock::transport::shm {

/// One end's memory, mapped: a RingHeader and the data of its outgoing ring. Never there in a forked child, which must
/// not touch it.
class RingMemory {
 public:
  RingMemory() noexcept = default;
  RingMemory(RingMemory&& other) noexcept;
  RingMemory& operator=(RingMemory&& other) noexcept;
  ~RingMemory();

  // The server makes both ends' memory: a new memfd each, all of it backed by memory, sealed against shrinking, growing
  // and more seals. `*fd` is to be passed to the client; the mapping doesn't need it. Both throw InvalidArgumentError
  // for a size that isn't allowed, ResourceError, SystemError.

  /// The server's own: mapped writable, and sealed against other writers.
  static RingMemory create(std::uint64_t ring_bytes, UniqueFd* fd);
  /// The client's: mapped read-only.
  static RingMemory create_for_peer(std::uint64_t ring_bytes, UniqueFd* fd);

  // The client takes them. Both throw ProtocolError that says which check failed, ResourceError.

  /// The server's: checked, then mapped read-only.
  static RingMemory adopt(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where);
  /// The client's own: checked, then mapped writable.
  static RingMemory adopt_own(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where);

  /// Writable only in memory that is this end's own.
  RingHeader* header() const noexcept { return static_cast<RingHeader*>(start_); }
  std::byte* data() const noexcept { return static_cast<std::byte*>(start_) + sizeof(RingHeader); }
  std::uint64_t ring_bytes() const noexcept { return ring_bytes_; }

 private:
  RingMemory(void* start, std::uint64_t ring_bytes) noexcept : start_(start), ring_bytes_(ring_bytes) {}
  static void check(const UniqueFd& fd, int seals, std::uint64_t ring_bytes, const std::string& where);
  void* start_ = nullptr;
  std::uint64_t ring_bytes_ = 0;
  ForkGuard fork_;
};

/// Throws InvalidArgumentError unless `ring_bytes` is a power of two from kMinRingBytes to kMaxRingBytes.
void check_ring_bytes(std::uint64_t ring_bytes);

}  // namespace crossdock::transport::shm
