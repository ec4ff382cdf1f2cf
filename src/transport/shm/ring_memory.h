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

  // The client takes what a server's RingMaker has made. Both throw ProtocolError that says which check failed,
  // ResourceError.

  /// The server's: checked, then mapped read-only.
  static RingMemory adopt(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where);
  /// The client's own: checked, then mapped writable.
  static RingMemory adopt_own(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where);

  /// Writable only in memory that is this end's own.
  RingHeader* header() const noexcept { return static_cast<RingHeader*>(start_); }
  std::byte* data() const noexcept { return static_cast<std::byte*>(start_) + sizeof(RingHeader); }
  std::uint64_t ring_bytes() const noexcept { return ring_bytes_; }

 private:
  friend class RingMaker;
  RingMemory(void* start, std::uint64_t ring_bytes) noexcept : start_(start), ring_bytes_(ring_bytes) {}
  static void check(const UniqueFd& fd, int seals, std::uint64_t ring_bytes, const std::string& where);
  void* start_ = nullptr;
  std::uint64_t ring_bytes_ = 0;
  ForkGuard fork_;
};

/// Makes one end's memory, which the server does for both: a new memfd, all of it backed by memory and mapped, sealed
/// against shrinking, growing and more seals. It does so in steps of some tens of microseconds each, since a mebibyte
/// at once takes the kernel half a millisecond, in which a server's thread would serve nobody.
class RingMaker {
 public:
  enum class End : std::uint8_t {
    kServer,  ///< Mapped writable, and sealed against other writers.
    kClient,  ///< Mapped read-only.
  };
  /// Throws InvalidArgumentError for a size that isn't allowed, ResourceError, SystemError.
  RingMaker(End end, std::uint64_t ring_bytes);

  /// The next step. True: it was the last, or there is none. Throws ResourceError, SystemError.
  bool step();
  /// Once, after the last step. `*fd` is to be passed to the client; the mapping doesn't need it.
  RingMemory take(UniqueFd* fd);

 private:
  End end_;
  UniqueFd file_;
  RingMemory memory_;
  std::uint64_t filled_ = 0;  // bytes
};

/// Throws InvalidArgumentError unless `ring_bytes` is a power of two from kMinRingBytes to kMaxRingBytes.
void check_ring_bytes(std::uint64_t ring_bytes);

}  // namespace crossdock::transport::shm
