#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "clock.h"
#include "crossdock/core/error.h"

namespace crossdock::device::sim {

/// One recording of an event: a place in a queue's work. Thread-safe.
class Point {
 public:
  Point(std::shared_ptr<Timeline> timeline, std::uint64_t epoch, Clock clock) noexcept
      : timeline_(std::move(timeline)), epoch_(epoch), clock_(std::move(clock)) {}

  /// The work that is ordered before the point, and the point itself. Hold the simulation's lock to use it.
  Clock& clock() noexcept { return clock_; }
  /// Returns the failure of its queue's work before it, once that work is done; null if none failed.
  std::shared_ptr<const Error> found() const { return timeline_->failure(epoch_); }

  /// Marks the work before it as done, and as failed if `failure` isn't null.
  void finish(std::shared_ptr<const Error> failure);
  /// Adds a failure that was found late. The first failure stays.
  void fail(const std::shared_ptr<const Error>& failure);
  bool done() const;
  void wait() const;
  std::shared_ptr<const Error> failure() const;

 private:
  const std::shared_ptr<Timeline> timeline_;
  const std::uint64_t epoch_;
  Clock clock_;
  mutable std::mutex mutex_;
  mutable std::condition_variable finished_;
  bool done_ = false;
  std::shared_ptr<const Error> failure_;
};

}  // namespace crossdock::device::sim
