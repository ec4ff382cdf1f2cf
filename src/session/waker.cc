#include "session/waker.h"

namespace crossdock::session {

void Waker::notify() noexcept {
  events_.fetch_add(1, std::memory_order_seq_cst);
  if (!sleeping_.load(std::memory_order_seq_cst)) return;
  fd_.set();
}

bool Waker::prepare_sleep(std::uint64_t seen) noexcept {
  sleeping_.store(true, std::memory_order_seq_cst);
  if (events_.load(std::memory_order_seq_cst) == seen) return true;
  sleeping_.store(false, std::memory_order_relaxed);
  return false;
}

void Waker::woke() noexcept {
  sleeping_.store(false, std::memory_order_relaxed);
  fd_.clear();
}

void* Waker::next_woken() noexcept {
  const std::lock_guard lock(mutex_);
  if (woken_ == nullptr) return nullptr;
  void* const connection = woken_->connection_;
  woken_->unlink();
  return connection;
}

void ConnectionWaker::notify() noexcept {
  events_.fetch_add(1, std::memory_order_seq_cst);
  if (!waits_.load(std::memory_order_seq_cst) || !waits_.exchange(false, std::memory_order_seq_cst)) return;
  {
    const std::lock_guard lock(waker_->mutex_);
    if (connection_ == nullptr || linked_) return;
    linked_ = true;
    after_ = waker_->woken_;
    if (after_ != nullptr) after_->before_ = this;
    waker_->woken_ = this;
  }
  waker_->notify();
}

bool ConnectionWaker::wait(std::uint64_t seen) noexcept {
  waits_.store(true, std::memory_order_seq_cst);
  return events_.load(std::memory_order_seq_cst) == seen;
}

void ConnectionWaker::detach() noexcept {
  const std::lock_guard lock(waker_->mutex_);
  connection_ = nullptr;
  unlink();
}

void ConnectionWaker::unlink() noexcept {
  if (!std::exchange(linked_, false)) return;
  (before_ == nullptr ? waker_->woken_ : before_->after_) = after_;
  if (after_ != nullptr) after_->before_ = before_;
  before_ = after_ = nullptr;
}

}  // namespace crossdock::session
