#include "session/flight/outgoing_call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/amounts.h"
#include "core/milliseconds.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

constexpr std::size_t kMostAnswers = 2;

}  // namespace

std::shared_ptr<OutgoingCall> OutgoingCall::start(std::shared_ptr<FlightChannel> channel, const char* method,
                                                  OutgoingMessage first, bool more, std::function<void()> changed,
                                                  std::optional<std::string> authorization) {
  // The carrier's share of it is dropped by ended().
  std::shared_ptr<OutgoingCall> call(new OutgoingCall(std::move(channel), std::move(changed)));
  const xd_call_events events = {
      .message =
          [](void* data, const xd_bytes* parts, std::size_t n_parts, xd_message* held) {
            OutgoingCall& self = of(data);
            auto message = std::make_unique<ReceivedMessage>(self.channel_->carrier(), parts, n_parts, held);
            bool wanted = false;
            {
              const std::lock_guard lock(self.mutex_);
              self.reading_ = false;
              self.answers_.push_back(std::move(message));
              wanted = self.wants_more_locked();
            }
            if (wanted) self.channel_->carrier().calls().read(self.call_);
            self.note_change();
          },
      .last =
          [](void* data) {
            OutgoingCall& self = of(data);
            const std::lock_guard lock(self.mutex_);
            self.reading_ = false;
            self.read_all_ = true;
          },
      .written =
          [](void* data, std::int32_t) {
            OutgoingCall& self = of(data);
            bool end = false;
            {
              const std::lock_guard lock(self.mutex_);
              self.writing_ = false;
              end = !self.more_;
            }
            if (end) self.channel_->carrier().calls().writes_done(self.call_);
            self.note_change();
          },
      .cancelled = [](void*) {},
      .ended =
          [](void* data, xd_status status, xd_bytes answered) {
            const std::unique_ptr<std::shared_ptr<OutgoingCall>> share(
                static_cast<std::shared_ptr<OutgoingCall>*>(data));
            {
              const std::lock_guard lock((*share)->mutex_);
              (*share)->answered_authorization_ = text_of(answered);
              (*share)->status_ = {static_cast<flight::StatusCode>(status.code), std::string(text_of(status.message))};
            }
            (*share)->note_change();
          },
  };
  const std::string path = std::string("/arrow.flight.protocol.FlightService/") + method;
  const xd_carrier& calls = call->channel_->carrier().calls();
  call->reading_ = call->writing_ = true;
  call->more_ = more;
  const std::string header = authorization ? *std::move(authorization) : call->channel_->authorization();
  call->call_ = calls.call_start(call->channel_->handle(), bytes_of(path), bytes_of(header), 0, &events,
                                 new std::shared_ptr<OutgoingCall>(call));
  write(call->channel_->carrier(), call->call_, std::move(first));
  calls.read(call->call_);
  return call;
}

OutgoingCall::~OutgoingCall() {
  if (call_ != nullptr) channel_->carrier().calls().release(call_);
}

bool OutgoingCall::wants_more_locked() {
  if (reading_ || read_all_ || answers_.size() >= kMostAnswers) return false;
  reading_ = true;
  return true;
}

void OutgoingCall::note_change() {
  news_.notify_all();
  if (changed_) changed_();
}

std::unique_ptr<ReceivedMessage> OutgoingCall::take() {
  std::unique_ptr<ReceivedMessage> message;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    if (answers_.empty()) return nullptr;
    message = std::move(answers_.front());
    answers_.pop_front();
    more = wants_more_locked();
  }
  if (more) channel_->carrier().calls().read(call_);
  return message;
}

std::optional<flight::Status> OutgoingCall::over() const {
  const std::lock_guard lock(mutex_);
  return answers_.empty() ? status_ : std::nullopt;
}

std::string OutgoingCall::answered_authorization() const {
  const std::lock_guard lock(mutex_);
  return answered_authorization_;
}

bool OutgoingCall::has_news() const {
  const std::lock_guard lock(mutex_);
  return has_news_locked();
}

void OutgoingCall::cancel() noexcept { channel_->carrier().calls().cancel(call_); }

template <typename Ready>
void OutgoingCall::wait_until(Ready ready, int timeout_ms, const transport::InterruptHook& interrupted) const {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::unique_lock lock(mutex_);
  while (!ready()) {
    if (timeout_ms >= 0 && Clock::now() >= deadline) {
      throw TimeoutError("the Flight server at " + channel_->where() + " didn't answer within " +
                         in_seconds(std::chrono::milliseconds(timeout_ms)));
    }
    auto until = Clock::now() + kHookInterval;
    if (timeout_ms >= 0) until = std::min(until, deadline);
    news_.wait_until(lock, until);
    if (!interrupted || ready()) continue;
    lock.unlock();  // the hook may call anything
    if (interrupted()) {
      throw InterruptedError("waiting for the Flight server at " + channel_->where() + " was interrupted");
    }
    lock.lock();
  }
}

void OutgoingCall::wait(int timeout_ms, const transport::InterruptHook& interrupted) const {
  wait_until([this] { return has_news_locked(); }, timeout_ms, interrupted);
}

bool OutgoingCall::wait_until_written(int timeout_ms, const transport::InterruptHook& interrupted) const {
  wait_until([this] { return !writing_ || status_; }, timeout_ms, interrupted);
  const std::lock_guard lock(mutex_);
  return !status_;
}

bool OutgoingCall::send(OutgoingMessage message, int timeout_ms, const transport::InterruptHook& interrupted) {
  if (!wait_until_written(timeout_ms, interrupted)) return false;
  {
    const std::lock_guard lock(mutex_);
    writing_ = true;
  }
  write(channel_->carrier(), call_, std::move(message));
  return true;
}

bool OutgoingCall::end_messages(int timeout_ms, const transport::InterruptHook& interrupted) {
  if (!wait_until_written(timeout_ms, interrupted)) return false;
  channel_->carrier().calls().writes_done(call_);
  return true;
}

}  // namespace crossdock::session
