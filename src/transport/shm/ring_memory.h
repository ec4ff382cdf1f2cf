#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/fork.h"
#include "core/unique_fd.h"
#include "ring.h"

namespace crossdock::transport::shm {

/// The memory of one end, mapped: a RingHeader and the data of its outgoing ring. Not mapped in a forked child, which
/// must not access it.
class RingMemory {
 public:
  RingMemory() noexcept = default;
  RingMemory(RingMemory&& other) noexcept;
  RingMemory& operator=(RingMemory&& other) noexcept;
  ~RingMemory();

  // The client maps memory that a server's RingMaker has made. Both functions throw ProtocolError, whose text says
  // which check failed, and ResourceError.

  /// The server's memory: checks it, then maps it read-only.
  static RingMemory adopt(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where);
  /// The client's own memory: checks it, then maps it writable.
  static RingMemory adopt_own(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where);

  /// Only this end's own memory is writable.
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

/// Makes the memory of one end; the server does this for both. It is a new memfd, with all pages allocated and mapped,
/// sealed against shrinking, growing and more seals. This is done in steps of some tens of microseconds each: a
/// mebibyte at once would take the kernel half a millisecond, in which the server's thread would serve no client.
class RingMaker {
 public:
  enum class End : std::uint8_t {
    kServer,  ///< Mapped writable, and sealed against other writers.
    kClient,  ///< Mapped read-only.
  };
  /// Throws InvalidArgumentError for a size that isn't allowed, ResourceError, SystemError.
  RingMaker(End end, std::uint64_t ring_bytes);

  /// Does the next step. Returns true if it was the last one, or if there is none left. Throws ResourceError,
  /// SystemError.
  bool step();
  /// Call it once, after the last step. `*fd` is the descriptor to pass to the client; the mapping doesn't need it.
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
