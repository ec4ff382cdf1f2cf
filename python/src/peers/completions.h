#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "core/fork.h"

/// How the threads of a peers::Hub, which never take the GIL, tell an event loop what is over.
namespace crossdock::python {

struct Completion {
  std::uint64_t id;
  std::exception_ptr error;  ///< Null: it succeeded.
};

/// A queue of completions for one event loop, and an eventfd that is readable while the loop should take() them.
/// Thread-safe. In a forked child every call does nothing: another thread may have held the lock at the fork.
class Completions {
 public:
  /// Throws ResourceError if no descriptor is left.
  Completions();
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  int descriptor() const noexcept { return descriptor_; }
  /// Makes room for one more completion, so that complete() needs no memory.
  void expect();
  /// Takes such room back.
  void forget() noexcept;
  /// Queues a completion that was expected, and makes the descriptor readable. Drops it after close().
  void complete(std::uint64_t id, std::exception_ptr error) noexcept;
  /// Makes the descriptor readable, so that the loop calls into the package, which runs deferred tasks.
  void wake() noexcept;
  /// Returns the completions since the last call, and makes the descriptor unreadable.
  std::vector<Completion> take();
  /// Closes the descriptor. What completes later is dropped.
  void close() noexcept;

 private:
  void wake_locked() noexcept;

  const ForkGuard made_in_;
  std::mutex mutex_;
  int descriptor_;
  bool awake_ = false;        // the descriptor is readable
  std::size_t expected_ = 0;  // completions that were expected and not yet queued
  std::vector<Completion> queue_;
};

/// One completion that is expected. Destroying the last copy of the pointer to it without complete() forgets it.
class ExpectedCompletion {
 public:
  ExpectedCompletion(std::shared_ptr<Completions> to, std::uint64_t id) : to_(std::move(to)), id_(id) { to_->expect(); }
  ExpectedCompletion(const ExpectedCompletion&) = delete;
  ExpectedCompletion& operator=(const ExpectedCompletion&) = delete;
  ~ExpectedCompletion() {
    if (!completed_) to_->forget();
  }
  /// Called once at most.
  void complete(std::exception_ptr error = nullptr) noexcept {
    completed_ = true;
    to_->complete(id_, std::move(error));
  }

 private:
  const std::shared_ptr<Completions> to_;
  const std::uint64_t id_;
  bool completed_ = false;
};

}  // namespace crossdock::python
