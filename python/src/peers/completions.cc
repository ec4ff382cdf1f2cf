#include "completions.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::python {

Completions::Completions() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw_errno(errno, "making the descriptor that an event loop watches for peers");
}

Completions::~Completions() { close(); }

void Completions::expect() {
  if (made_in_.in_child()) return;
  const std::scoped_lock lock(mutex_);
  const std::size_t needed = queue_.size() + expected_ + 1;
  if (queue_.capacity() < needed) queue_.reserve(std::max(needed, 2 * queue_.capacity()));
  ++expected_;
}

void Completions::forget() noexcept {
  if (made_in_.in_child()) return;
  const std::scoped_lock lock(mutex_);
  --expected_;
}

void Completions::complete(std::uint64_t id, std::exception_ptr error) noexcept {
  if (made_in_.in_child()) return;
  const std::scoped_lock lock(mutex_);
  --expected_;
  if (descriptor_ < 0) return;
  queue_.push_back({id, std::move(error)});
  wake_locked();
}

void Completions::wake() noexcept {
  if (made_in_.in_child()) return;
  const std::scoped_lock lock(mutex_);
  if (descriptor_ >= 0) wake_locked();
}

void Completions::wake_locked() noexcept {
  if (std::exchange(awake_, true)) return;
  const std::uint64_t one = 1;
  // Can't fail: the counter is 0.
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
}

std::vector<Completion> Completions::take() {
  if (made_in_.in_child()) return {};
  const std::scoped_lock lock(mutex_);
  std::vector<Completion> taken(queue_);  // a copy: the queue keeps the room that was made for what is expected
  queue_.clear();
  if (std::exchange(awake_, false)) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(descriptor_, &count, sizeof count);
  }
  return taken;
}

void Completions::close() noexcept {
  std::unique_lock<std::mutex> lock;
  if (!made_in_.in_child()) lock = std::unique_lock(mutex_);
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  queue_.clear();
}

}  // namespace crossdock::python
