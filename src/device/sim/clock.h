#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"

/// Which work is ordered before which: vector clocks, and the accesses that are held against them. Everything here is
/// for who holds the simulation's lock, except what says otherwise.
namespace crossdock::device::sim {

class Point;

/// The time of one queue, counted in events recorded. Work put on the queue belongs to the next one. Outlives its queue
/// as long as an access or a clock knows it.
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
  /// A new event. Returns its time.
  std::uint64_t record(const std::shared_ptr<Point>& point);

  /// The points recorded at `epoch` or later that the host hasn't seen, and the next ones, carry this failure.
  void fail_since(std::uint64_t epoch, const std::shared_ptr<const Error>& error);
  /// Somebody got it thrown: events recorded from now on don't carry it. Those recorded before do, done or not.
  void deliver(const Error* error);

  // Without the simulation's lock.

  /// Work failed. The first failure stays until somebody got it.
  void fail(const std::shared_ptr<const Error>& error);
  /// What the event of this time carries, now that it is complete; null if nothing.
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

/// What is known to be ordered before: an event's time of each queue. What the host has seen is before everything that
/// is still to come, and isn't listed.
class Clock {
 public:
  void join(const std::shared_ptr<Timeline>& timeline, std::uint64_t epoch);
  void join(const Clock& other);
  bool covers(const Timeline& timeline, std::uint64_t epoch) const noexcept;
  /// The host knows that all of this is done.
  void see() const noexcept;
  /// A failure of one of these queues was thrown at somebody.
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
  /// An access that `next`, by a queue that knows `clock`, must be ordered after and isn't. Null if there is none.
  const Access* conflict(const Access& next, const Clock& clock) const noexcept;
  /// Adds an access, which takes the place of those that it is ordered after.
  void add(const Access& next, const Clock& clock);
  /// Forgets what was done to these bytes before `clock`: they are somebody else's now. Of the rest somebody may still
  /// have to be told.
  void forget(std::uint64_t begin, std::uint64_t end, const Clock& clock);
  /// Work on these bytes that the host doesn't know to be done; null if there is none.
  const Access* pending(std::uint64_t begin, std::uint64_t end) const noexcept;
  const std::vector<Access>& all() const noexcept { return accesses_; }
  /// Drops what the host knows to be done, and the oldest above `most`.
  void prune(std::size_t most);

 private:
  void cut_out(std::uint64_t begin, std::uint64_t end, const Access* by, const Clock& clock);
  std::vector<Access> accesses_;
};

}  // namespace crossdock::device::sim
