#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"

/// Vector clocks, which say which work is ordered before which, and the accesses that are checked against them. Hold
/// the simulation's lock to use anything here, except where stated otherwise.
namespace crossdock::device::sim {

class Point;

/// The time of one queue, counted in recorded events. Work put on the queue belongs to the next event. Outlives its
/// queue as long as an access or a clock refers to it.
class Timeline {
 public:
  static constexpr std::uint64_t kOpenEnd = ~std::uint64_t{0};

  explicit Timeline(std::string name) : name_(std::move(name)) {}

  const std::string& name() const noexcept { return name_; }
  std::uint64_t now() const noexcept { return epoch_ + 1; }
  std::uint64_t recorded() const noexcept { return epoch_; }
  std::uint64_t host_seen() const noexcept { return host_seen_; }
  void see(std::uint64_t epoch) noexcept {
    if (epoch > host_seen_) host_seen_ = epoch;
  }
  /// Records a new event. Returns its time.
  std::uint64_t record(const std::shared_ptr<Point>& point);

  /// Sets this failure on the points recorded at `epoch` or later that the host hasn't seen, and on the next ones.
  void fail_since(std::uint64_t epoch, const std::shared_ptr<const Error>& error);
  /// Notes that this failure was thrown to a caller: events recorded from now on don't carry it. Events recorded before
  /// still carry it, whether their work is done or not.
  void deliver(const Error* error);

  // The next two don't need the simulation's lock.

  /// Notes that work failed. The first failure stays until it has been delivered.
  void fail(const std::shared_ptr<const Error>& error);
  /// Returns the failure that the event of this time carries, now that it is complete; null if there is none.
  std::shared_ptr<const Error> failure(std::uint64_t epoch) const;

 private:
  const std::string name_;
  std::uint64_t epoch_ = 0;
  std::uint64_t host_seen_ = 0;
  std::vector<std::pair<std::uint64_t, std::weak_ptr<Point>>> points_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Error> failure_;
  std::uint64_t failed_until_ = kOpenEnd;  // the last event that carries it
};

/// The work that is known to be ordered before: the time of one event for each queue. Work that the host has seen to be
/// done is before all work still to come, and isn't listed.
class Clock {
 public:
  void join(const std::shared_ptr<Timeline>& timeline, std::uint64_t epoch);
  void join(const Clock& other);
  bool covers(const Timeline& timeline, std::uint64_t epoch) const noexcept;
  /// Notes that the host knows all of this to be done.
  void see() const noexcept;
  /// Notes that a failure of one of these queues was thrown to a caller.
  void deliver(const Error* error) const;

 private:
  std::vector<std::pair<std::shared_ptr<Timeline>, std::uint64_t>> entries_;
};

enum class AccessKind : std::uint8_t { kAllocate, kRead, kWrite, kFree };

struct Access {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  AccessKind kind = AccessKind::kRead;
  std::shared_ptr<Timeline> timeline;
  std::uint64_t epoch = 0;

  bool writes() const noexcept { return kind != AccessKind::kRead; }
  bool overlaps(std::uint64_t from, std::uint64_t to) const noexcept { return begin < to && from < end; }
  bool seen() const noexcept { return epoch <= timeline->host_seen(); }
};

/// The last accesses to the bytes of one piece of memory.
class AccessLog {
 public:
  /// Returns an access that `next` must be ordered after, but isn't; null if there is none. `clock` is the clock of the
  /// queue of `next`.
  const Access* conflict(const Access& next, const Clock& clock) const noexcept;
  /// Adds an access. It replaces the accesses that it is ordered after.
  void add(const Access& next, const Clock& clock);
  /// Forgets the accesses to these bytes that are ordered before `clock`: the bytes may have another owner now. Keeps
  /// the other accesses, since they may still have to be reported.
  void forget(std::uint64_t begin, std::uint64_t end, const Clock& clock);
  /// Returns work on these bytes that the host doesn't know to be done; null if there is none.
  const Access* pending(std::uint64_t begin, std::uint64_t end) const noexcept;
  const std::vector<Access>& all() const noexcept { return accesses_; }
  /// Drops the accesses that the host knows to be done, and the oldest ones above `most`.
  void prune(std::size_t most);

 private:
  void cut_out(std::uint64_t begin, std::uint64_t end, const Access* by, const Clock& clock);
  std::vector<Access> accesses_;
};

}  // namespace crossdock::device::sim
