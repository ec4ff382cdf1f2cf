#include "traffic.h"

#include <exception>
#include <new>
#include <utility>

namespace crossdock::transport::fabric {

void Traffic::send(std::shared_ptr<OutgoingBody> body) {
  const std::lock_guard lock(mutex_);
  if (endpoint_ == nullptr) return;
  try {
    to_send_.push_back(body.get());
    outgoing_.push_back(std::move(body));
  } catch (const std::bad_alloc&) {
    return break_off("no memory for a body that was announced");
  }
  n_outgoing_.store(outgoing_.size(), std::memory_order_release);
  post();
}

void Traffic::receive(std::shared_ptr<ArrivingBody> body) {
  const std::lock_guard lock(mutex_);
  if (endpoint_ == nullptr) return;
  to_receive_.push_back(std::move(body));
  post();
}

void Traffic::read(std::shared_ptr<ReadGroup> reads) {
  const std::lock_guard lock(mutex_);
  if (endpoint_ == nullptr) return;
  to_read_.push_back(std::move(reads));
  post();
}

bool Traffic::is_complete(const ArrivingBody& body) const {
  const std::lock_guard lock(mutex_);
  return body.done();
}

bool Traffic::is_complete(const ReadGroup& reads) const {
  const std::lock_guard lock(mutex_);
  return reads.done();
}

/// Hands to the endpoint what it has room for. Each kind goes in the order in which it was begun.
void Traffic::post() {
  const auto post_all = [this](auto& pending) {
    while (!pending.empty() && pending.front()->post(*endpoint_)) pending.pop_front();
  };
  if (broken()) return;
  try {
    post_all(to_receive_);
    post_all(to_send_);
    post_all(to_read_);
  } catch (const std::exception& error) {
    break_off(error.what());
  }
}

void Traffic::break_off(std::string_view why) noexcept {
  try {
    why_ = why;
  } catch (const std::bad_alloc&) {
    // The reason is lost, not that there is one.
  }
  broken_.store(true, std::memory_order_release);
}

std::size_t Traffic::advance(Finished* finished) {
  if (endpoint_ == nullptr || broken()) return 0;
  std::size_t n = 0;
  try {
    n = endpoint_->progress();
  } catch (const std::exception& error) {
    break_off(error.what());
    return 0;
  }
  if (const auto& failure = endpoint_->failure()) break_off(endpoint_->domain().library().text(failure->error));
  post();
  if (n == 0) return 0;
  for (auto body = outgoing_.begin(); body != outgoing_.end();) {
    if (!(*body)->done()) {
      ++body;
      continue;
    }
    sent_bytes_.fetch_add((*body)->size(), std::memory_order_relaxed);
    finished->splice(finished->end(), outgoing_, body++);
  }
  n_outgoing_.store(outgoing_.size(), std::memory_order_release);
  ended_.fetch_add(n, std::memory_order_release);
  return n;
}

void Traffic::progress() {
  Finished finished;  // destroyed without the lock: their owners may do anything
  const std::lock_guard lock(mutex_);
  advance(&finished);
}

bool Traffic::may_sleep() {
  Finished finished;
  const std::lock_guard lock(mutex_);
  if (advance(&finished) > 0) return false;
  return endpoint_ == nullptr || broken() || endpoint_->may_sleep();
}

std::optional<Failure> Traffic::failure() const {
  const std::lock_guard lock(mutex_);
  return endpoint_ == nullptr ? std::nullopt : endpoint_->failure();
}

std::string Traffic::broken_why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

void Traffic::close() noexcept {
  // Destroyed without the lock: their owners may do anything.
  std::list<std::shared_ptr<OutgoingBody>> sends;
  std::list<std::shared_ptr<ArrivingBody>> receives;
  std::list<std::shared_ptr<ReadGroup>> reads;
  EndpointPtr endpoint;
  const std::lock_guard lock(mutex_);
  broken_.store(true, std::memory_order_release);
  endpoint = std::move(endpoint_);
  to_send_.clear();
  sends.swap(outgoing_);
  receives.swap(to_receive_);
  reads.swap(to_read_);
}

}  // namespace crossdock::transport::fabric
