#pragma once

#include <memory>

/// The order of releases of memory that move to another thread: a queue's work is done, but the owner can be destroyed
/// on some threads only, for example with the GIL. A tool that checks the order of accesses, as the simulated device
/// does, follows such a release by a hook. Without a hook, nothing here has an effect.
namespace crossdock::device {

struct ReleaseHook {
  /// Returns the work that is known to be done, if the calling thread is releasing memory after it; else null.
  std::shared_ptr<const void> (*done)() noexcept;
  /// Makes the calling thread release memory after that work, or after none for null. Returns what it released after
  /// before.
  const void* (*set_done)(const void* done) noexcept;
};

/// Installs the hook of the process, which is never destroyed. Thread-safe.
void install_release_hook(const ReleaseHook& hook) noexcept;

/// Returns what a thread that can't destroy an owner passes on with it; null if there is nothing.
std::shared_ptr<const void> release_order() noexcept;

/// Makes the releases of the calling thread, while this object lives, count as releases on the thread that passed the
/// order on.
class ReleaseScope {
 public:
  /// `of` is a result of release_order(). Null changes nothing.
  explicit ReleaseScope(std::shared_ptr<const void> of) noexcept;
  ReleaseScope(const ReleaseScope&) = delete;
  ReleaseScope& operator=(const ReleaseScope&) = delete;
  ~ReleaseScope();

 private:
  std::shared_ptr<const void> of_;
  const void* before_ = nullptr;
};

}  // namespace crossdock::device
