#include "queue.h"

#include <pthread.h>

#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "core/blocked_signals.h"
#include "crossdock/core/error.h"
#include "world.h"

namespace crossdock::device::sim {

void WorkQueue::start() {
  const std::lock_guard lock(mutex_);
  if (started_) return;
  const BlockedSignals blocked;
  try {
    std::thread([self = shared_from_this()] { self->run(); }).detach();
  } catch (const std::system_error& error) {
    throw ResourceError(timeline_->name() + " can't have a thread: " + error.what());
  }
  started_ = true;
}

void WorkQueue::push(Work&& work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

bool WorkQueue::idle() const {
  const std::lock_guard lock(mutex_);
  return work_.empty() && !busy_;
}

void WorkQueue::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void WorkQueue::run() noexcept {
  ::pthread_setname_np(::pthread_self(), "crossdock-sim");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !work_.empty(); });
    if (work_.empty()) return;
    const auto due = work_.front().due;
    if (std::chrono::steady_clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    busy_ = true;
    {
      Work work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      perform(work);
    }  // destroys the work without the lock: that may run deleters
    lock.lock();
    busy_ = false;
  }
}

void WorkQueue::perform(Work& work) {
  if (auto* copy = std::get_if<CopyWork>(&work.what)) {
    if (copy->failure) {
      timeline_->fail(copy->failure);
    } else {
      std::memcpy(copy->to, copy->from, copy->size);
    }
  } else if (auto* wait = std::get_if<WaitWork>(&work.what)) {
    if (wait->point) {
      wait->point->wait();
      if (const auto failure = wait->point->failure()) timeline_->fail(failure);
    } else if (const std::int32_t status = wait->other->wait(wait->other); status < 0) {
      timeline_->fail(failure_of(*wait->other, status));
    }
  } else if (auto* record = std::get_if<RecordWork>(&work.what)) {
    complete(record->event, *record->point);
  } else if (auto* free = std::get_if<FreeWork>(&work.what)) {
    if (free->failure) timeline_->fail(free->failure);
    free->world->free_now(*free);
  }
}

}  // namespace crossdock::device::sim
