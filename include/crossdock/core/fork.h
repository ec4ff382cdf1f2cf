#pragma once

#include <atomic>
#include <cstdint>

#include "crossdock/core/export.h"

namespace crossdock {

/// Remembers the process that it was made in. Objects with threads, sockets or recycled memory hold one: after a fork
/// the child has their bytes, but not their right to act. Checking costs one relaxed load, no system call.
class CROSSDOCK_EXPORT ForkGuard {
 public:
  ForkGuard() noexcept;
  /// True in a process forked from the one that made this.
  bool in_child() const noexcept { return generation_.load(std::memory_order_relaxed) != made_in_; }
  /// Throws ForkError that names `what` ("this Server") in a forked child.
  void check(const char* what) const;

 private:
  static std::atomic<std::uint64_t> generation_;
  std::uint64_t made_in_;
};

}  // namespace crossdock
