#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "crossdock/transport/interrupt.h"

namespace crossdock::session {

class SourceLane;
class SourcePool;

/// Work that the pool's threads do step by step: on one thread at a time, but not always on the same thread.
class SourceTask : public std::enable_shared_from_this<SourceTask> {
 public:
  enum class Next : std::uint8_t {
    kAgain,  ///< There is more to do.
    kWait,   ///< There is nothing to do until SourcePool::wake(). A wake() during the step counts.
    kDone,
  };
  virtual ~SourceTask() = default;
  /// Does a part of the work. Its time is bounded, except for at most one call of a producer, which may block.
  virtual Next step() noexcept = 0;
  /// Moves out the objects that the steps would have used. Called once, instead of step(), by SourcePool::cancel(),
  /// with the pool's mutex held.
  virtual std::shared_ptr<const void> unused() noexcept = 0;

 private:
  friend class SourcePool;
  enum class State : std::uint8_t { kNew, kQueued, kRunning, kWaiting, kDone };

  // Guarded by the pool's mutex:
  std::shared_ptr<SourceLane> lane_;
  State state_ = State::kNew;
  bool begun_ = false;  // set at the first step
  bool woken_ = false;  // wake() was called during the step
  SourceTask* next_ = nullptr;
  std::chrono::steady_clock::time_point queued_at_{};
};

/// The tasks of one consumer. Lanes take turns, so that a consumer with many tasks doesn't delay other consumers.
class SourceLane {
 private:
  friend class SourcePool;
  // Guarded by the pool's mutex:
  std::set<SourceTask*> tasks_;  // those that aren't finished
  SourceTask* first_ = nullptr;  // queued
  SourceTask* last_ = nullptr;
  SourceLane* next_ = nullptr;  // in the list of lanes that take turns
  bool in_round_ = false;
  unsigned running_ = 0;
  std::chrono::steady_clock::time_point returned_at_{};  // when a step last ended
};

/// A limited number of threads that read a server's sources, or do other work for it. A thread is started when there is
/// work and no idle thread for it, and ends after a time without work; each one joins the thread that ended before it.
/// Each lane occupies at most half of the threads at once. Thread-safe. Only wait() and the destructor wait for
/// threads, because an ending thread may need a GIL to drop objects of its producers.
class SourcePool {
 public:
  struct Options {
    unsigned threads = 64;                        ///< Maximum, not counting threads that are ending; at least 1.
    std::chrono::milliseconds idle{1000};         ///< A thread without work ends after this time.
    std::chrono::milliseconds begin_limit{3000};  ///< See check_begins(). 0: none, for tasks that end by themselves.
  };
  explicit SourcePool(const Options& options);
  /// Calls close(), then waits for all tasks.
  ~SourcePool();
  SourcePool(const SourcePool&) = delete;
  SourcePool& operator=(const SourcePool&) = delete;

  /// Queues a new task, and owns it until it is finished. Throws ClosedError, std::system_error (no thread can be
  /// started), std::bad_alloc; the task is then unchanged.
  void start(const std::shared_ptr<SourceTask>& task, std::shared_ptr<SourceLane> lane);
  /// Ends a task that is queued and hasn't begun, and returns true. step() is then never called, and the pool no longer
  /// owns the task. One of the pool's threads drops the objects that unused() returns. Also returns false if there
  /// isn't enough memory for this.
  bool cancel(SourceTask& task) noexcept;
  /// Queues a task that waits. During a step, makes the task continue after it.
  void wake(SourceTask& task) noexcept;
  /// Calls wake() for all tasks of a lane.
  void wake_all(SourceLane& lane) noexcept;
  /// Throws ResourceError if the task is still queued and, for Options::begin_limit, no step has ended that would have
  /// made room for it: all threads that it could use are in calls that don't return.
  void check_begins(const SourceTask& task) const;
  std::chrono::milliseconds begin_limit() const noexcept { return options_.begin_limit; }

  /// Wakes all tasks, which then see closed() return true. No task can be started from now on. Never waits.
  void close() noexcept;
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  /// Waits, after close(), until all tasks are finished and the threads have ended. Calls `interrupted` from time to
  /// time; if that returns true, stops waiting and returns false.
  bool wait(const transport::InterruptHook& interrupted);
  /// Whether the calling thread is one of the pool's threads.
  bool on_its_thread() const noexcept;

  /// Number of sources that have begun and not ended, and that no consumer reads any more. They are in a call of their
  /// producer, or wait for a thread on which to end. The server counts each as a connection.
  std::atomic<std::uint32_t>& abandoned() noexcept { return abandoned_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Threads = std::list<std::thread>;

  // With the mutex held:
  unsigned share() const noexcept { return options_.threads > 1 ? options_.threads / 2 : 1; }
  void start_thread();
  void queue(SourceTask& task) noexcept;
  void call_a_thread() noexcept;
  void join_round(SourceLane& lane) noexcept;
  void wake_locked(SourceTask& task) noexcept;
  SourceTask* take() noexcept;
  bool has_work() const noexcept { return first_ != nullptr || !unused_.empty(); }
  std::shared_ptr<SourceTask> finish(SourceTask& task) noexcept;
  std::shared_ptr<SourceTask> put_back(SourceTask& task, SourceTask::Next next) noexcept;
  bool over() const noexcept { return closed() && unfinished_.empty(); }

  void run(Threads::iterator self) noexcept;

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::set<std::shared_ptr<SourceTask>> unfinished_;
  std::set<std::shared_ptr<const void>> unused_;  // of canceled tasks; objects that tasks share are here once
  SourceLane* first_ = nullptr;                   // lanes with a queued task and a thread available for it
  SourceLane* last_ = nullptr;
  Threads threads_;
  Threads ended_;  // to be joined: at most one, as each joins the one before
  unsigned idle_ = 0;
  unsigned called_ = 0;  // idle threads that were woken and haven't continued yet
  Clock::time_point returned_at_{};
  std::atomic<bool> closed_{false};
  std::atomic<std::uint32_t> abandoned_{0};
};

}  // namespace crossdock::session
