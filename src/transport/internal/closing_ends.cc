#include "transport/internal/closing_ends.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock::transport {

bool ClosingEnd::over() noexcept {
  try {
    return step() || Clock::now() >= deadline_;
  } catch (const std::exception&) {  // The peer is gone, or this end can't go on: there is nothing left to wait for.
    return true;
  }
}

void wait_for_all(std::list<std::unique_ptr<ClosingEnd>> ends) noexcept {
  using Clock = ClosingEnd::Clock;
  try {
    for (;;) {
      ends.remove_if([](const std::unique_ptr<ClosingEnd>& end) { return end->over(); });
      if (ends.empty()) return;
      Clock::time_point first = Clock::time_point::max();
      std::vector<pollfd> events;
      bool armed = true;
      for (const std::unique_ptr<ClosingEnd>& end : ends) {
        armed = end->arm() && armed;
        first = std::min(first, end->deadline());
        events.push_back({end->descriptor(), POLLIN, 0});
      }
      if (!armed) continue;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now());
      ::poll(events.data(), events.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    }
  } catch (const std::exception&) {
    // Without memory, or if they can't be waited for, they are destroyed at once.
  }
}

ClosingEnds::ClosingEnds() : added_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!added_event_) throw_errno(errno, "making a descriptor for connections that close");
}

bool ClosingEnds::add(std::unique_ptr<ClosingEnd>& end) noexcept {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  try {
    added_.emplace_back();
  } catch (const std::exception&) {
    return false;
  }
  added_.back() = std::move(end);
  const std::uint64_t one = 1;
  // EAGAIN means that the counter is full: then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(added_event_.get(), &one, sizeof one);
  return true;
}

void ClosingEnds::advance(AcceptPoll& poll) {
  std::list<std::unique_ptr<ClosingEnd>> added;
  {
    const std::lock_guard lock(mutex_);
    added.swap(added_);
    std::uint64_t count = 0;
    if (!added.empty()) [[maybe_unused]]
      const ssize_t got = ::read(added_event_.get(), &count, sizeof count);
  }
  const auto drop = [&](std::list<Watched>::iterator which) {
    poll.forget(which->end->descriptor());
    watched_.erase(which);
  };
  for (std::unique_ptr<ClosingEnd>& end : added) {
    if (end->over()) continue;
    watched_.push_back({.end = std::move(end)});
    try {
      poll.watch(watched_.back().end->descriptor(), &watched_.back().news);
    } catch (const Error&) {
      // Its deadline is watched all the same.
    }
    if (watched_.size() > kMost) drop(watched_.begin());
  }
  for (auto next = watched_.begin(); next != watched_.end();) {
    const auto which = next++;
    if (which->end->over()) drop(which);
  }
}

bool ClosingEnds::arm() {
  bool all = true;
  for (const Watched& watched : watched_) all = watched.end->arm() && all;
  return all;
}

std::optional<ClosingEnd::Clock::time_point> ClosingEnds::deadline() const noexcept {
  std::optional<ClosingEnd::Clock::time_point> first;
  for (const Watched& watched : watched_) {
    first = std::min(first.value_or(watched.end->deadline()), watched.end->deadline());
  }
  return first;
}

void ClosingEnds::stop(const AcceptPoll& poll) noexcept {
  std::list<std::unique_ptr<ClosingEnd>> left;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    left.swap(added_);
  }
  try {
    for (Watched& watched : watched_) {
      poll.forget(watched.end->descriptor());
      left.emplace_back();
      left.back() = std::move(watched.end);
    }
  } catch (const std::exception&) {
    // Without memory, the others are destroyed at once.
  }
  left.remove(nullptr);
  watched_.clear();
  wait_for_all(std::move(left));
}

}  // namespace crossdock::transport
