#include "dissociated/read_queue.h"

#include <utility>

namespace crossdock::dissociated {

void ReadQueue::push(std::unique_ptr<Body> body, std::uint64_t bytes) {
  bodies_.push_back({std::move(body), bytes});
  begin_reads();
}

ReadQueue::Due ReadQueue::next(std::unique_ptr<Body>* body) {
  begin_reads();
  poll_reads();
  if (!bodies_.empty() && bodies_.front().there) {
    *body = std::move(bodies_.front().body);
    bytes_begun_ -= bodies_.front().bytes;
    --n_begun_;
    bodies_.pop_front();
    begin_reads();  // so that they overlap with the consumer's work on this body
    return Due::kBody;
  }
  if (ending_ == Ending::kError) return Due::kError;
  if (bodies_.empty()) return ending_ == Ending::kEnd ? Due::kEnd : Due::kNothing;
  if (bodies_.front().failure) std::rethrow_exception(bodies_.front().failure);
  return Due::kNothing;
}

// Begins reads in the stream's order, up to the limit.
void ReadQueue::begin_reads() {
  for (; n_begun_ < bodies_.size(); ++n_begun_) {
    Entry& entry = bodies_[n_begun_];
    if (n_begun_ > 0 && bytes_begun_ + entry.bytes > read_ahead_) return;
    try {
      if (!entry.body->begin()) return;
    } catch (...) {
      entry.failure = std::current_exception();
    }
    bytes_begun_ += entry.bytes;
  }
}

// Releases the lease of each body whose read has ended, even behind one that is still being read.
void ReadQueue::poll_reads() {
  for (std::size_t i = 0; i < n_begun_; ++i) {
    Entry& entry = bodies_[i];
    if (entry.there || entry.failure) continue;
    try {
      entry.there = entry.body->done();
    } catch (...) {
      entry.failure = std::current_exception();
    }
    if (entry.there) entry.body->release();
  }
}

bool ReadQueue::drop() noexcept {
  bool idle = true;
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    if (bodies_[i].there) continue;
    if (i < n_begun_) {
      bodies_[i].body->abandon();
      idle = false;
    } else {
      bodies_[i].body->release();
    }
  }
  bodies_.clear();
  n_begun_ = 0;
  bytes_begun_ = 0;
  return idle;
}

}  // namespace crossdock::dissociated
