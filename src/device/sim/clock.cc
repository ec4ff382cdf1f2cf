#include "clock.h"

#include <algorithm>

#include "point.h"

namespace crossdock::device::sim {

std::uint64_t Timeline::record(const std::shared_ptr<Point>& point) {
  std::erase_if(points_, [this](const auto& known) { return known.first <= host_seen_ || known.second.expired(); });
  points_.emplace_back(epoch_ + 1, point);
  return ++epoch_;
}

void Timeline::fail_since(std::uint64_t epoch, const std::shared_ptr<const Error>& error) {
  for (const auto& [recorded, known] : points_) {
    if (recorded < epoch || recorded <= host_seen_) continue;
    if (const std::shared_ptr<Point> point = known.lock()) point->fail(error);
  }
  fail(error);
}

void Timeline::fail(const std::shared_ptr<const Error>& error) {
  const std::lock_guard lock(mutex_);
  if (failure_ && failed_until_ == kOpenEnd) return;
  failure_ = error;
  failed_until_ = kOpenEnd;
}

std::shared_ptr<const Error> Timeline::failure(std::uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  return epoch <= failed_until_ ? failure_ : nullptr;
}

void Timeline::deliver(const Error* error) {
  const std::lock_guard lock(mutex_);
  if (failure_.get() == error && failed_until_ == kOpenEnd) failed_until_ = epoch_;
}

void Clock::join(const std::shared_ptr<Timeline>& timeline, std::uint64_t epoch) {
  if (epoch <= timeline->host_seen()) return;
  for (auto& [known, seen] : entries_) {
    if (known == timeline) {
      seen = std::max(seen, epoch);
      return;
    }
  }
  entries_.emplace_back(timeline, epoch);
}

void Clock::join(const Clock& other) {
  std::erase_if(entries_, [](const auto& entry) { return entry.second <= entry.first->host_seen(); });
  for (const auto& [timeline, epoch] : other.entries_) join(timeline, epoch);
}

bool Clock::covers(const Timeline& timeline, std::uint64_t epoch) const noexcept {
  if (epoch <= timeline.host_seen()) return true;
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& entry) { return entry.first.get() == &timeline && epoch <= entry.second; });
}

void Clock::see() const noexcept {
  for (const auto& [timeline, epoch] : entries_) timeline->see(epoch);
}

void Clock::deliver(const Error* error) const {
  for (const auto& entry : entries_) entry.first->deliver(error);
}

const Access* AccessLog::conflict(const Access& next, const Clock& clock) const noexcept {
  for (const Access& earlier : accesses_) {
    if (!earlier.overlaps(next.begin, next.end) || (!earlier.writes() && !next.writes())) continue;
    if (earlier.timeline == next.timeline || clock.covers(*earlier.timeline, earlier.epoch)) continue;
    return &earlier;
  }
  return nullptr;
}

void AccessLog::add(const Access& next, const Clock& clock) {
  cut_out(next.begin, next.end, &next, clock);
  for (Access& known : accesses_) {
    // Merges neighbouring accesses of one queue and one time, for example a batch's buffers, copied one after the
    // other.
    if (known.timeline != next.timeline || known.epoch != next.epoch || known.kind != next.kind) continue;
    if (known.end == next.begin) {
      known.end = next.end;
      return;
    }
    if (next.end == known.begin) {
      known.begin = next.begin;
      return;
    }
  }
  accesses_.push_back(next);
}

void AccessLog::forget(std::uint64_t begin, std::uint64_t end, const Clock& clock) {
  cut_out(begin, end, nullptr, clock);
}

const Access* AccessLog::pending(std::uint64_t begin, std::uint64_t end) const noexcept {
  for (const Access& access : accesses_) {
    if (access.kind != AccessKind::kAllocate && access.overlaps(begin, end) && !access.seen()) return &access;
  }
  return nullptr;
}

void AccessLog::prune(std::size_t most) {
  std::erase_if(accesses_, [](const Access& access) { return access.seen(); });
  if (accesses_.size() > most) accesses_.erase(accesses_.begin(), accesses_.end() - static_cast<std::ptrdiff_t>(most));
}

void AccessLog::cut_out(std::uint64_t begin, std::uint64_t end, const Access* by, const Clock& clock) {
  std::vector<Access> rests;
  std::erase_if(accesses_, [&](const Access& access) {
    if (!access.overlaps(begin, end)) return false;
    // A read doesn't replace an earlier write: later work isn't ordered after that write only because this read is.
    if (by != nullptr && access.writes() && !by->writes()) return false;
    const bool own = by != nullptr && access.timeline == by->timeline;
    if (!own && !clock.covers(*access.timeline, access.epoch)) return false;
    Access rest = access;
    if (access.begin < begin) {
      rest.end = begin;
      rests.push_back(rest);
      rest = access;
    }
    if (access.end > end) {
      rest.begin = end;
      rests.push_back(rest);
    }
    return true;
  });
  accesses_.insert(accesses_.end(), rests.begin(), rests.end());
}

}  // namespace crossdock::device::sim
