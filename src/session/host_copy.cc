#include "session/host_copy.h"

#include <utility>

#include "session/device_table.h"

namespace crossdock::session {

SourceTask::Next HostCopy::step() noexcept {
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
  }
  for (const auto& waker : waiting) waker->notify();
  return Next::kDone;
}

std::shared_ptr<const PublishedTable> HostCopy::get(const std::shared_ptr<ConnectionWaker>& waker) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (!made_) waiting_.push_back(waker);
  return made_;
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
    const auto table = copy_->get(waker_);
    if (!table) return State::kLater;
    stream_ = std::make_unique<TableStream>(table, way());
  }
  return stream_->peek(out);
}

}  // namespace crossdock::session
