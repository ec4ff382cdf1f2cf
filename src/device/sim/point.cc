#include "point.h"

#include <utility>

namespace crossdock::device::sim {

void Point::finish(std::shared_ptr<const Error> failure) {
  const std::lock_guard lock(mutex_);
  done_ = true;
  if (!failure_) failure_ = std::move(failure);
  // Notifies under the lock: the waiting thread may hold the last reference to the point.
  finished_.notify_all();
}

void Point::fail(const std::shared_ptr<const Error>& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

bool Point::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Point::wait() const {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return done_; });
}

std::shared_ptr<const Error> Point::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace crossdock::device::sim
