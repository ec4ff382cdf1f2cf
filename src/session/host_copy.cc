#include "session/host_copy.h"

#include <utility>

#include "session/device_table.h"

namespace crossdock::session {

void HostCopy::start(SourcePool& pool) {
  pool_ = &pool;
  pool.start(shared_from_this(), std::make_shared<SourceLane>());
}

SourceTask::Next HostCopy::step() noexcept {
  begun_.store(true, std::memory_order_relaxed);
  std::shared_ptr<const PublishedTable> made;
  std::exception_ptr failure;
  try {
    made = host_copy_of(*table_);
  } catch (...) {
    failure = std::current_exception();
  }
  std::vector<std::shared_ptr<ConnectionWaker>> waiting;
  {
    const std::lock_guard lock(mutex_);
    made_ = std::move(made);
    failure_ = std::move(failure);
    waiting.swap(waiting_);
    if (made_) table_.reset();
  }
  for (const auto& waker : waiting) waker->notify();
  return Next::kDone;
}

void HostCopy::add_waker(const std::shared_ptr<ConnectionWaker>& waker) {
  const std::lock_guard lock(mutex_);
  if (!made_ && !failure_) waiting_.push_back(waker);
}

std::shared_ptr<const PublishedTable> HostCopy::get() const {
  if (!begun_.load(std::memory_order_relaxed)) pool_->check_begins(*this);
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return made_;
}

int HostCopy::look_again_ms() const noexcept {
  return begun_.load(std::memory_order_relaxed) ? 0 : static_cast<int>(pool_->begin_limit().count());
}

bool HostCopy::failed() const {
  const std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

std::uint64_t HostCopy::bytes_copied() const {
  const std::lock_guard lock(mutex_);
  return made_ ? made_->bytes_copied : 0;
}

ServerStream::State HostCopyStream::peek(Outgoing* out) {
  if (!stream_) {
    const auto table = copy_->get();
    if (!table) return State::kLater;
    set_way(prepare_(*table));
    stream_ = std::make_unique<TableStream>(table, way());
    copy_.reset();
  }
  return stream_->peek(out);
}

int HostCopyStream::look_again_ms() const noexcept { return copy_ ? copy_->look_again_ms() : 0; }

}  // namespace crossdock::session
