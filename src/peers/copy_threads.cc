#include "peers/copy_threads.h"

#include <string>
#include <system_error>
#include <utility>

#include "core/blocked_signals.h"
#include "crossdock/core/error.h"

namespace crossdock::peers {

void CopyThreads::close() noexcept {
  std::deque<std::function<void()>> dropped_without_the_lock;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    dropped_without_the_lock.swap(tasks_);
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CopyThreads::add(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) throw ClosedError("the Hub of this Peer was closed");
    if (idle_ <= tasks_.size() && threads_.size() < most_) {
      try {
        const BlockedSignals blocked;  // signals are for the program's own threads
        threads_.emplace_back([this] { run(); });
      } catch (const std::system_error& error) {
        if (threads_.empty()) {
          throw ResourceError(std::string("no thread can be started that copies frames: ") + error.what() +
                              "; check the limits: ulimit -u and ulimit -v");
        }
      }
    }
    tasks_.push_back(std::move(task));
  }
  work_.notify_one();
}

void CopyThreads::run() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    work_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    --idle_;
    if (closing_) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace crossdock::peers
