#include "session/consumer.h"

namespace crossdock::session {

bool ByteBudget::take(std::uint64_t bytes) noexcept {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > limit_ || bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void Consumer::give_lent(std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  lent_.give(bytes);
  sources_->wake_all(*lane_);
}

void Consumer::give_waiting(std::uint64_t bytes) noexcept {
  waiting_.give(bytes);
  sources_->wake_all(*lane_);
}

void Consumer::count_abandoned(int change) noexcept {
  const auto by = static_cast<std::uint32_t>(change);  // modulo 2^32: this also adds -1
  abandoned_.fetch_add(by, std::memory_order_relaxed);
  sources_->abandoned().fetch_add(by, std::memory_order_relaxed);
}

std::shared_ptr<Consumer> Consumers::of(const transport::Agreement& peer) {
  // Over a network, or from another PID namespace, it isn't known which connections belong to the same process.
  if (peer.peer_pid == 0) return std::make_shared<Consumer>(lease_limit_, sources_);
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Consumer>& known = known_[{peer.peer_pid, peer.peer_uid}];
  std::shared_ptr<Consumer> consumer = known.lock();
  if (!consumer) known = consumer = std::make_shared<Consumer>(lease_limit_, sources_);
  return consumer;
}

}  // namespace crossdock::session
