#pragma once

#include <atomic>
#include <cstdint>

namespace crossdock {

/// Remembers the process that it was made in. Objects with threads, sockets or recycled memory hold one: after a fork
/// the child has copies of these objects, but may not use them. A check costs one relaxed load, and no system call.
class ForkGuard {
 public:
  ForkGuard() noexcept;
  /// Returns true in a process that was forked from the process that made this.
  bool in_child() const noexcept { return generation_.load(std::memory_order_relaxed) != made_in_; }
  /// Throws ForkError in a forked child. `what` names the object in the error, as in "this Server".
  void check(const char* what) const {
    if (in_child()) [[unlikely]]
      fail(what);
  }

 private:
  [[noreturn]] static void fail(const char* what);
  static std::atomic<std::uint64_t> generation_;
  std::uint64_t made_in_;
};

}  // namespace crossdock
