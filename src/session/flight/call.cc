#include "session/flight/call.h"

#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

xd_bytes view(std::string_view text) noexcept { return {text.data(), text.size()}; }

}  // namespace

void* Call::attach(xd_call_events* events) {
  self_ = shared_from_this();
  *events = {
      .message =
          [](void* data, const xd_bytes* parts, std::size_t n_parts, xd_message* held) {
            auto* const call = static_cast<Call*>(data);
            try {
              call->on_message(std::make_unique<ReceivedMessage>(*call->carrier_, parts, n_parts, held));
            } catch (const std::exception& error) {
              call->finish(flight::status_of(error));
            }
          },
      .last =
          [](void* data) {
            auto* const call = static_cast<Call*>(data);
            try {
              call->on_last();
            } catch (const std::exception& error) {
              call->finish(flight::status_of(error));
            }
          },
      .written =
          [](void* data, std::int32_t sent) {
            auto* const call = static_cast<Call*>(data);
            {
              const std::lock_guard lock(call->mutex_);
              call->writing_ = false;
              call->cancelled_ |= sent == 0;  // the event cancelled() may come later
            }
            call->pump();
            call->on_change();
          },
      .cancelled =
          [](void* data) {
            auto* const call = static_cast<Call*>(data);
            {
              const std::lock_guard lock(call->mutex_);
              call->cancelled_ = true;
            }
            call->pump();
            call->on_change();
          },
      .ended = [](void* data, xd_status, xd_bytes) { static_cast<Call*>(data)->self_.reset(); },
  };
  return this;
}

// Calls the carrier, unless the call has been finished: after that it may be gone.
template <typename Use>
void Call::with_call(Use use) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    ++users_;
  }
  use();
  {
    const std::lock_guard lock(mutex_);
    --users_;
  }
  pump();
}

void Call::read() {
  with_call([this] { carrier_->calls().read(call_); });
}

void Call::cancel() {
  with_call([this] { carrier_->calls().cancel(call_); });
}

void Call::push(OutgoingMessage message) {
  {
    const std::lock_guard lock(mutex_);
    if (end_ || cancelled_) return;
    queue_.push_back(std::move(message));
  }
  pump();
}

void Call::finish(flight::Status status, std::string authorization) {
  {
    const std::lock_guard lock(mutex_);
    if (end_) return;
    end_ = std::move(status);
    authorization_ = std::move(authorization);
  }
  pump();
}

std::size_t Call::queued() const {
  const std::lock_guard lock(mutex_);
  return queue_.size() + (writing_ ? 1 : 0);
}

bool Call::over() const {
  const std::lock_guard lock(mutex_);
  return finished_ || cancelled_;
}

// Does what is next, if nothing is under way. No lock is held over the carrier's functions: events may come inside.
void Call::pump() {
  OutgoingMessage next{};
  std::deque<OutgoingMessage> dropped;
  flight::Status status;
  std::string authorization;
  bool finish = false;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) dropped.swap(queue_);
    if (writing_ || finished_) return;
    if (!queue_.empty()) {
      next = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
    } else {
      if ((!end_ && !cancelled_) || users_ > 0) return;
      finished_ = finish = true;
      status = cancelled_ ? flight::Status{flight::StatusCode::kCancelled, "the call was cancelled"} : *end_;
      authorization = std::move(authorization_);
    }
  }
  if (finish) {
    const xd_status end{static_cast<std::int32_t>(status.code), view(status.text)};
    carrier_->calls().finish(call_, nullptr, 0, end, view(authorization));  // this object may be gone afterwards
  } else {
    write(*carrier_, call_, std::move(next));
  }
}

}  // namespace crossdock::session
