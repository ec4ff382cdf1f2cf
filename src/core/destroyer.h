#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/blocked_signals.h"
#include "core/fork.h"

namespace crossdock {

/// Destroys objects on a thread of its own, because that may take long. The thread starts when there is work, ends
/// after a time without work, and doesn't delay the exit of the process. Adding an object needs no memory: T has a
/// member `std::unique_ptr<T> next`. Thread-safe. Must never be destroyed.
template <typename T>
class Destroyer {
 public:
  /// `idle`: the time that the thread stays without work.
  explicit Destroyer(std::chrono::milliseconds idle) noexcept : idle_(idle) {}

  /// False in a forked child: the thread is the parent's, and perhaps the lock is held there. Then call no other
  /// member.
  bool usable() const noexcept { return !made_in_.in_child(); }

  /// Takes an object, to destroy it on the thread, and returns null. If no thread can be started: without `keep`,
  /// returns the object; with `keep`, holds it until a later add() or left() starts the thread. The number of objects
  /// has no limit: an I/O thread may add many, and must not wait.
  std::unique_ptr<T> add(std::unique_ptr<T> object, bool keep = false) noexcept {
    const std::lock_guard lock(mutex_);
    if (!has_thread() && !keep) return object;
    object->next = std::exchange(first_, nullptr);
    first_ = std::move(object);
    ++left_;
    work_.notify_one();
    return nullptr;
  }

  /// Returns how many objects aren't destroyed yet. If the thread couldn't be started, tries again.
  std::size_t left() noexcept {
    const std::lock_guard lock(mutex_);
    if (left_ > 0) has_thread();
    return left_;
  }

  /// Waits until all objects are destroyed; only if none was kept without a thread. Returns true if there was any.
  bool wait() noexcept {
    std::unique_lock lock(mutex_);
    if (left_ == 0) return false;
    done_.wait(lock, [this] { return left_ == 0; });
    return true;
  }

 private:
  bool has_thread() noexcept {
    if (running_) return true;
    try {
      const BlockedSignals blocked;  // signals are for the program's own threads
      std::thread([this] { run(); }).detach();
      running_ = true;
    } catch (const std::exception&) {
    }
    return running_;
  }

  void run() noexcept {
    std::unique_lock lock(mutex_);
    while (work_.wait_for(lock, idle_, [this] { return first_ != nullptr; })) {
      std::unique_ptr<T> object = std::move(first_);
      first_ = std::move(object->next);
      lock.unlock();
      object.reset();
      lock.lock();
      if (--left_ == 0) done_.notify_all();
    }
    running_ = false;
  }

  const ForkGuard made_in_;
  const std::chrono::milliseconds idle_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::unique_ptr<T> first_;  // the object added last
  std::size_t left_ = 0;      // including the one that is being destroyed
  bool running_ = false;
};

}  // namespace crossdock
