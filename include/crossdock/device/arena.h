#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "crossdock/core/export.h"
#include "crossdock/core/function.h"
#include "crossdock/core/impl_ptr.h"

namespace crossdock::device {

class Region;

/// Memory to build one table in. Publishing takes it over without a copy. It grows as needed within the address space
/// that is reserved at the start. Thread-safe.
class CROSSDOCK_EXPORT Arena {
 public:
  /// What becomes of the memory in this process when the arena is frozen.
  enum class Frozen : std::uint8_t {
    kReadOnly,     ///< It can't be written to any more: SIGSEGV.
    kCopyOnWrite,  ///< It can; each page that is written to becomes a private copy, which consumers don't see.
  };

  /// Reserves address space. `reserve` is the most that the arena can hold, in bytes, and costs only address space. 0
  /// means twice the machine's memory, or less if a limit on address space demands it. Throws ResourceError.
  explicit Arena(std::uint64_t reserve = 0, Frozen frozen = Frozen::kReadOnly);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Allocates zeroed memory, aligned to 64 bytes. It lives as long as the arena or the region made from it. Size 0
  /// returns a pointer into the arena, too. Throws ArenaFrozenError (also while another thread freezes), ResourceError
  /// (over `reserve`), ForkError. Until the arena is frozen, its memory isn't mapped in a forked child (SIGSEGV).
  std::byte* allocate(std::uint64_t size);
  /// Returns true if these bytes are among those that were allocated. Size 0 tests the pointer alone, which may be the
  /// end.
  bool contains(const void* pointer, std::uint64_t size) const noexcept;
  /// Returns the bytes that were allocated, with padding and the unused start.
  std::uint64_t size() const noexcept;
  /// Returns true once freeze() has succeeded: nothing can be allocated any more.
  bool frozen() const noexcept;
  /// Returns what the constructor was given.
  Frozen when_frozen() const noexcept;
  /// Returns the bytes from the start of the arena's memory to `pointer`, which is in it: its offset in the region.
  std::uint64_t offset_of(const void* pointer) const noexcept;

  /// Makes the memory read-only or private at the same addresses, in this process too, seals it, and returns it as a
  /// frozen region (src/device/region.h), whose size is the arena's, rounded up to whole pages. Programs outside this
  /// library can only hold the region. Without Frozen::kCopyOnWrite the region keeps the memory. Later calls return the
  /// same region. Calls the on_freeze hooks first, with no lock held. Passes on exceptions of a hook, and throws
  /// ForkError, ResourceError (no memory for pages never touched); then the arena is unchanged. Throws SystemError if
  /// the memory can't be sealed because other code can still write to it; then it is read-only, and freeze() can be
  /// tried again.
  std::shared_ptr<const Region> freeze();
  /// Adds a hook that freeze() calls, again if freeze() failed and is tried again. Calls it at once if the arena is
  /// being frozen or is frozen.
  void on_freeze(std::function<void()> hook);

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::device
