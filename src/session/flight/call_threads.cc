#include "session/flight/call_threads.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "core/blocked_signals.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

thread_local const CallThreads* running_for = nullptr;

}  // namespace

bool CallThreads::on_its_thread() const noexcept { return running_for == this; }

void CallThreads::wait() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto next = std::ranges::find_if(workers_, [](const Worker& worker) { return worker.thread.joinable(); });
    if (next == workers_.end()) break;
    std::thread thread = std::move(next->thread);
    lock.unlock();
    thread.join();
    lock.lock();
  }
  lock.unlock();
  join_ended();
}

void CallThreads::join_ended() {
  std::list<Worker> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto worker = workers_.begin(); worker != workers_.end();) {
      const auto next = std::next(worker);
      if (worker->done) ended.splice(ended.end(), workers_, worker);
      worker = next;
    }
  }
  for (Worker& worker : ended) {
    if (worker.thread.joinable()) worker.thread.join();
  }
}

void CallThreads::start(std::function<void()> task) {
  join_ended();
  const std::lock_guard lock(mutex_);
  if (workers_.size() >= most_) {
    throw ResourceError("this server is " + std::string(what_) + " for " + std::to_string(workers_.size()) +
                        " clients: try again later");
  }
  Worker& worker = workers_.emplace_back();
  const BlockedSignals blocked;  // the thread handles none
  try {
    worker.thread = std::thread([this, run = std::move(task), &worker]() mutable {
      running_for = this;
      run();
      run = nullptr;  // what it keeps is dropped before the thread counts as ended
      const std::lock_guard done(mutex_);
      worker.done = true;
    });
  } catch (const std::exception& error) {
    workers_.pop_back();
    throw ResourceError("no thread can be started for " + std::string(what_) + ": " + error.what());
  }
}

}  // namespace crossdock::session
