#include "closing.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "control.h"

namespace crossdock::transport::ucx {
namespace {

constexpr int kMessagesPerTurn = 64;

}  // namespace

bool is_of_peer(ErrorCode code) noexcept { return code == ErrorCode::kConnection || code == ErrorCode::kProtocol; }

ClosingEnd::ClosingEnd(std::shared_ptr<Worker> worker, std::unique_ptr<Endpoint> endpoint, Until until,
                       std::shared_ptr<const OfferedMemory> offered, std::uint64_t sent, std::uint64_t taken,
                       bool peer_left)
    : offered_(std::move(offered)),
      worker_(std::move(worker)),
      endpoint_(std::move(endpoint)),
      until_(until),
      sent_(sent),
      taken_(taken),
      goodbye_sent_(until == Until::kPeerGone || until == Until::kFlushed),
      peer_left_(peer_left) {}

bool ClosingEnd::over() noexcept {
  try {
    return step() || Clock::now() >= deadline_;
  } catch (...) {  // The peer is gone, or broke the rules: there is nobody left to wait for.
    return true;
  }
}

bool ClosingEnd::step() {
  worker_->progress();
  const bool failed = endpoint_->failure().has_value();
  std::size_t parts = 0;  // of answers
  for (int i = 0; i < kMessagesPerTurn && parts < OfferedMemory::kPartsPerTurn && may_take(); ++i) {
    const std::optional<Received> got = take();
    if (!got) break;
    if (got->kind != MessageKind::kControl) continue;
    ReadRequest request;
    if (offered_ != nullptr && decode(got->bytes, &request)) parts += offered_->answer(*endpoint_, got->bytes).parts;
    Control control;
    if (!decode(got->bytes, &control)) continue;
    if (control.kind == ControlKind::kTaken) taken_ = control.number;
    if (control.kind == ControlKind::kGoodbye) peer_left_ = true;
  }
  if (failed) return true;
  // A peer that has left closes by force once it has this. UCX 1.13 aborts this process if a message is still being
  // written to that peer's memory then.
  if (!goodbye_sent_ && (!peer_left_ || worker_->sends() == 0)) {
    goodbye_sent_ = endpoint_->send_control(encode(Control{ControlKind::kGoodbye, sent_}));
  }
  if (until_ == Until::kPeerGone) return peer_left_;
  if (until_ == Until::kFlushed) return peer_left_ || flushed();
  if (!goodbye_sent_ || worker_->sends() > 0) return false;
  // UCX 1.13 aborts the peer's process if this end is closed by force while that writes a message to memory here.
  if (peer_left_ || until_ == Until::kSent) return !worker_->in_message();
  return until_ == Until::kTaken && taken_ >= sent_;
}

/// Returns the next message; nothing after an error of this end's own.
std::optional<Received> ClosingEnd::take() {
  try {
    return worker_->take();
  } catch (const Error& error) {
    if (is_of_peer(error.code())) throw;
    takes_no_more_ = true;
    return std::nullopt;
  }
}

bool ClosingEnd::flushed() {
  // UCX's flush doesn't wait for messages that the peer fetches.
  if (!flushing_ && worker_->sends() == 0) {
    endpoint_->finish();
    flushing_ = true;
  }
  // UCX 1.13 aborts the peer's process if this end is closed by force while that writes to memory here.
  return flushing_ && endpoint_->flushed() && !worker_->in_message();
}

void wait_for_all(std::list<ListedEnd> ends) noexcept {
  using Clock = ClosingEnd::Clock;
  try {
    for (;;) {
      ends.remove_if([](const ListedEnd& listed) { return listed.end->over(); });
      if (ends.empty()) return;
      Clock::time_point first = Clock::time_point::max();
      std::vector<pollfd> events;
      bool armed = true;
      for (const ListedEnd& listed : ends) {
        armed = listed.end->arm() && armed;
        first = std::min(first, listed.end->deadline());
        events.push_back({listed.end->descriptor(), POLLIN, 0});
      }
      if (!armed) continue;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now());
      ::poll(events.data(), events.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    }
  } catch (...) {  // Without memory, or if UCX can't wait, they are closed by force.
  }
}

bool ClosingEnds::add(std::unique_ptr<ClosingEnd>& end) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  added_.emplace_back();
  added_.back().end = std::move(end);
  wake_();
  return true;
}

void ClosingEnds::advance(AcceptPoll& poll) {
  auto next = watched_.end();  // the first new one
  {
    const std::lock_guard lock(mutex_);
    if (!added_.empty()) next = added_.begin();
    watched_.splice(watched_.end(), added_);
  }
  const auto drop = [&](std::list<ListedEnd>::iterator which) {
    poll.forget(which->end->descriptor());
    watched_.erase(which);
  };
  for (; next != watched_.end(); ++next) {
    try {
      poll.watch(next->end->descriptor(), &next->news);
    } catch (const Error&) {
      // Its deadline is watched all the same.
    }
  }
  for (next = watched_.begin(); next != watched_.end();) {
    const auto which = next++;
    if (which->end->over()) drop(which);
  }
  while (watched_.size() > kMost) drop(watched_.begin());
}

bool ClosingEnds::arm() {
  bool all = true;
  for (const ListedEnd& watched : watched_) all = watched.end->arm() && all;
  return all;
}

std::optional<ClosingEnd::Clock::time_point> ClosingEnds::deadline() const noexcept {
  std::optional<ClosingEnd::Clock::time_point> first;
  for (const ListedEnd& watched : watched_)
    first = std::min(first.value_or(watched.end->deadline()), watched.end->deadline());
  return first;
}

void ClosingEnds::stop(const AcceptPoll& poll) noexcept {
  for (const ListedEnd& watched : watched_) poll.forget(watched.end->descriptor());
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    watched_.splice(watched_.end(), added_);
  }
  std::list<ListedEnd> all;
  all.swap(watched_);
  wait_for_all(std::move(all));
}

}  // namespace crossdock::transport::ucx
