#include "session/flight/get_queue.h"

#include <string>
#include <utility>

#include "session/flight/get_connection.h"

namespace crossdock::session {
namespace {

const flight::Status kClosed{flight::StatusCode::kUnavailable, "ClosedError: the server was closed"};

}  // namespace

void GetQueue::add(std::shared_ptr<GetCall> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      waiting_.push_back(std::move(call));
      event_.set();
      return;
    }
  }
  call->finish(kClosed);
}

std::shared_ptr<GetCall> GetQueue::next() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    event_.clear();
    return nullptr;
  }
  auto call = std::move(waiting_.front());
  waiting_.pop_front();
  return call;
}

void GetQueue::close() {
  std::deque<std::shared_ptr<GetCall>> left;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    left.swap(waiting_);
  }
  for (const auto& call : left) call->finish(kClosed);
}

std::unique_ptr<transport::Connection> GetListener::accept() {
  std::shared_ptr<GetCall> call = queue_->next();
  if (!call) return nullptr;
  if (!full_) return std::make_unique<GetConnection>(std::move(call));
  ++rejections_.full;
  call->finish({flight::StatusCode::kResourceExhausted, std::string("ConnectionError: ") + transport::kServerFull});
  return nullptr;
}

}  // namespace crossdock::session
