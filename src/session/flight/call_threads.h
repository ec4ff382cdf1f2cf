#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace crossdock::session {

/// Threads for calls that wait: the carrier's own threads serve others meanwhile. Thread-safe.
class CallThreads {
 public:
  /// `most`: at once. `what` they do, for errors: "receiving tables".
  CallThreads(std::size_t most, const char* what) noexcept : most_(most), what_(what) {}
  ~CallThreads() { wait(); }
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  /// Runs `task`, which doesn't throw, on a thread of its own. Throws ResourceError if there are too many at once, or
  /// none can be started.
  void start(std::function<void()> task);
  /// Waits for all that were started. Never on one of its threads.
  void wait() noexcept;
  /// Whether this is one of its threads.
  bool on_its_thread() const noexcept;

 private:
  struct Worker {
    std::thread thread;
    bool done = false;
  };
  void join_ended();

  const std::size_t most_;
  const char* const what_;
  std::mutex mutex_;
  std::list<Worker> workers_;
};

}  // namespace crossdock::session
