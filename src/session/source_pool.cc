#include "session/source_pool.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "core/blocked_signals.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

// Interval at which a waiting thread calls `interrupted`.
constexpr std::chrono::milliseconds kWaitInterval{50};

thread_local const SourcePool* pool_of_this_thread = nullptr;

// Takes an item out of a list that is linked by T::next_.
template <typename T, typename Next>
void take_out(T*& first, T*& last, const T* item, Next T::*next) noexcept {
  T* before = nullptr;
  for (T* at = first; at != item; at = at->*next) before = at;
  (before == nullptr ? first : before->*next) = item->*next;
  if (last == item) last = before;
}

}  // namespace

SourcePool::SourcePool(const Options& options) : options_(options) {}

SourcePool::~SourcePool() {
  close();
  wait({});
}

void SourcePool::start_thread() {
  const BlockedSignals blocked;  // only the threads of the program itself take signals
  threads_.emplace_front();
  try {
    threads_.front() = std::thread([this, self = threads_.begin()] { run(self); });
  } catch (...) {
    threads_.pop_front();
    throw;
  }
}

void SourcePool::start(const std::shared_ptr<SourceTask>& task, std::shared_ptr<SourceLane> lane) {
  const std::lock_guard lock(mutex_);
  if (closed()) throw ClosedError("the server was closed");
  const bool first = threads_.empty();
  lane->tasks_.insert(task.get());
  try {
    unfinished_.insert(task);
    if (first) start_thread();
  } catch (...) {
    unfinished_.erase(task);
    lane->tasks_.erase(task.get());
    throw;
  }
  task->lane_ = std::move(lane);
  queue(*task);
  if (!first) call_a_thread();
}

bool SourcePool::cancel(SourceTask& task) noexcept {
  std::shared_ptr<SourceTask> owner;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  if (task.state_ != SourceTask::State::kQueued || task.begun_) return false;
  decltype(unused_) place;
  try {
    place.insert(nullptr);
  } catch (const std::bad_alloc&) {
    return false;
  }
  auto unused = place.extract(place.begin());
  unused.value() = task.unused();
  unused_.insert(std::move(unused));
  SourceLane& lane = *task.lane_;
  take_out(lane.first_, lane.last_, &task, &SourceTask::next_);
  if (lane.first_ == nullptr && lane.in_round_) {
    take_out(first_, last_, &lane, &SourceLane::next_);
    lane.in_round_ = false;
  }
  owner = finish(task);
  call_a_thread();
  return true;
}

void SourcePool::join_round(SourceLane& lane) noexcept {
  if (lane.in_round_ || lane.first_ == nullptr || lane.running_ >= share()) return;
  lane.in_round_ = true;
  lane.next_ = nullptr;
  (last_ == nullptr ? first_ : last_->next_) = &lane;
  last_ = &lane;
}

void SourcePool::queue(SourceTask& task) noexcept {
  SourceLane& lane = *task.lane_;
  task.state_ = SourceTask::State::kQueued;
  task.woken_ = false;
  task.next_ = nullptr;
  task.queued_at_ = Clock::now();
  (lane.last_ == nullptr ? lane.first_ : lane.last_->next_) = &task;
  lane.last_ = &task;
  join_round(lane);
}

// While there are tasks, there is at least one thread: if no further thread can be started, work is delayed, but not
// lost.
void SourcePool::call_a_thread() noexcept {
  if (!has_work()) return;
  if (idle_ > called_) {
    ++called_;
    work_.notify_one();
  } else if (threads_.size() < options_.threads) {
    try {
      start_thread();
    } catch (const std::exception&) {
    }
  }
}

void SourcePool::wake_locked(SourceTask& task) noexcept {
  if (task.state_ == SourceTask::State::kWaiting) {
    queue(task);
    call_a_thread();
    return;
  }
  if (task.state_ == SourceTask::State::kRunning) task.woken_ = true;
}

void SourcePool::wake(SourceTask& task) noexcept {
  const std::lock_guard lock(mutex_);
  wake_locked(task);
}

void SourcePool::wake_all(SourceLane& lane) noexcept {
  const std::lock_guard lock(mutex_);
  for (SourceTask* task : lane.tasks_) wake_locked(*task);
}

SourceTask* SourcePool::take() noexcept {
  SourceLane* const lane = first_;
  if (lane == nullptr) return nullptr;
  first_ = lane->next_;
  if (first_ == nullptr) last_ = nullptr;
  lane->in_round_ = false;
  SourceTask* const task = lane->first_;
  lane->first_ = task->next_;
  if (lane->first_ == nullptr) lane->last_ = nullptr;
  ++lane->running_;
  join_round(*lane);
  task->state_ = SourceTask::State::kRunning;
  task->begun_ = true;
  return task;
}

// Returns the pool's last reference to the task; drop it without the lock.
std::shared_ptr<SourceTask> SourcePool::finish(SourceTask& task) noexcept {
  task.state_ = SourceTask::State::kDone;
  task.lane_->tasks_.erase(&task);
  return std::move(unfinished_.extract(task.shared_from_this()).value());
}

// Returns a task that is finished; drop it without the lock.
std::shared_ptr<SourceTask> SourcePool::put_back(SourceTask& task, SourceTask::Next next) noexcept {
  SourceLane& lane = *task.lane_;
  --lane.running_;
  lane.returned_at_ = returned_at_ = Clock::now();
  std::shared_ptr<SourceTask> done;
  if (next == SourceTask::Next::kDone) {
    done = finish(task);
  } else if (next == SourceTask::Next::kAgain || task.woken_) {
    queue(task);
  } else {
    task.state_ = SourceTask::State::kWaiting;
  }
  join_round(lane);
  return done;
}

void SourcePool::run(Threads::iterator self) noexcept {
  pool_of_this_thread = this;
  std::unique_lock lock(mutex_);
  while (true) {
    if (!unused_.empty()) {
      auto unused = std::exchange(unused_, {});
      call_a_thread();
      lock.unlock();
      unused.clear();
      lock.lock();
      continue;
    }
    if (SourceTask* const task = take()) {
      call_a_thread();  // for the remaining work; a task that continues stays on its thread and needs no wake-up
      lock.unlock();
      const SourceTask::Next next = task->step();
      lock.lock();
      if (std::shared_ptr<SourceTask> done = put_back(*task, next)) {
        lock.unlock();
        done.reset();
        lock.lock();
      }
      continue;
    }
    if (over()) break;
    ++idle_;
    const bool timeout = work_.wait_for(lock, options_.idle) == std::cv_status::timeout;
    --idle_;
    if (called_ > 0) --called_;
    if (timeout && !has_work() && (threads_.size() > 1 || unfinished_.empty())) break;
  }
  Threads before = std::exchange(ended_, {});
  ended_.splice(ended_.end(), threads_, self);
  if (over()) work_.notify_all();
  done_.notify_all();
  lock.unlock();
  for (std::thread& thread : before) thread.join();
}

void SourcePool::check_begins(const SourceTask& task) const {
  if (options_.begin_limit.count() == 0) return;
  const std::lock_guard lock(mutex_);
  if (task.state_ != SourceTask::State::kQueued) return;
  const bool own_share = task.lane_->running_ >= share();
  const Clock::time_point moved = std::max(task.queued_at_, own_share ? task.lane_->returned_at_ : returned_at_);
  if (Clock::now() - moved < options_.begin_limit) return;
  constexpr const char* kRemedy = ": end streams that wait for their source, or raise the server's source_threads";
  if (options_.threads == 1) {
    throw ResourceError(std::string("the server's only thread that reads sources is in a call that doesn't return") +
                        kRemedy);
  }
  const std::string total = std::to_string(options_.threads);
  throw ResourceError(
      (own_share ? "this consumer's share, " + std::to_string(share()) + " of the server's " + total + " threads"
                 : "all " + total + " threads of the server") +
      " that read sources, are in calls that don't return" + kRemedy);
}

void SourcePool::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_.store(true, std::memory_order_release);
  for (const auto& task : unfinished_) wake_locked(*task);
  work_.notify_all();
}

bool SourcePool::wait(const transport::InterruptHook& interrupted) {
  std::unique_lock lock(mutex_);
  const auto all_ended = [this] { return unfinished_.empty() && threads_.empty(); };
  while (!done_.wait_for(lock, kWaitInterval, all_ended)) {
    lock.unlock();
    if (interrupted && interrupted()) return false;
    lock.lock();
  }
  Threads ended = std::exchange(ended_, {});
  lock.unlock();
  for (std::thread& thread : ended) thread.join();
  return true;
}

bool SourcePool::on_its_thread() const noexcept { return pool_of_this_thread == this; }

}  // namespace crossdock::session
