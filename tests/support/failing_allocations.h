#pragma once

#include <cstdint>

/// For programs that link failing_allocations.cc, which replaces operator new.
namespace crossdock::testing {

/// Whose allocations fail: those of the thread that asks for it, or those of all others.
enum class Whose : std::uint8_t { kMine, kOthers };

/// While it lives, allocations number `first` to `first + count - 1` (from 0, counted over the threads meant) throw
/// std::bad_alloc. One at a time.
class FailingAllocations {
 public:
  FailingAllocations(Whose whose, std::int64_t first, std::int64_t count) noexcept;
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  /// Allocations so far that were counted, failed or not.
  static std::int64_t seen() noexcept;
};

}  // namespace crossdock::testing
