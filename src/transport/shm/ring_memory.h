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

  /// Ours: a new memfd, all of it backed by memory, sealed against shrinking, growing, new writers and more seals.
  /// `*fd` is to be passed to the peer; the mapping doesn't need it. Throws InvalidArgumentError for a size that isn't
  /// allowed, ResourceError, SystemError.
  static RingMemory create(std::uint64_t ring_bytes, UniqueFd* fd);
  /// The peer's: checked, then mapped read-only. Throws ProtocolError that says which check failed, ResourceError.
  static RingMemory adopt(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where);

  /// Writable only if created here.
  RingHeader* header() const noexcept { return static_cast<RingHeader*>(start_); }
  std::byte* data() const noexcept { return static_cast<std::byte*>(start_) + sizeof(RingHeader); }
  std::uint64_t ring_bytes() const noexcept { return ring_bytes_; }

 private:
  RingMemory(void* start, std::uint64_t ring_bytes) noexcept : start_(start), ring_bytes_(ring_bytes) {}
  void* start_ = nullptr;
  std::uint64_t ring_bytes_ = 0;
  ForkGuard fork_;
};

/// Throws InvalidArgumentError unless `ring_bytes` is a power of two from kMinRingBytes to kMaxRingBytes.
void check_ring_bytes(std::uint64_t ring_bytes);

}  // namespace crossdock::transport::shm
