#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace crossdock::peers {

/// Threads that copy frames, so that neither the callers nor the I/O thread do. They start when there is work.
/// Thread-safe.
class CopyThreads {
 public:
  /// `most`: the most threads, at least 1.
  explicit CopyThreads(std::size_t most) : most_(most) {}
  /// Call close() before.
  ~CopyThreads() = default;
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  /// Queues a task, which must not throw. Throws ClosedError, ResourceError if no thread can be started, and
  /// std::bad_alloc.
  void add(std::function<void()> task);
  /// Waits for the tasks under way, and drops those that haven't begun. Must not run on one of the threads.
  void close() noexcept;

 private:
  void run() noexcept;

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool closing_ = false;
};

}  // namespace crossdock::peers
