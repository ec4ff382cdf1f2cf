#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "flight/status.h"
#include "session/flight/channel.h"
#include "session/flight/message.h"

namespace crossdock::session {

/// A call of a client: one request, and any number of answers. Two answers at most wait here, so that the server is
/// held back when nobody takes them. It lives until it has ended: cancel() one that is left before. Thread-safe.
class OutgoingCall : public std::enable_shared_from_this<OutgoingCall> {
 public:
  /// Starts a call, with its first message. `more`: others follow by send(), up to end_messages(). `changed` is called
  /// on the carrier's threads, with no lock held, whenever take() or over() may have something new. `authorization`:
  /// the header of this name, if it isn't the channel's.
  static std::shared_ptr<OutgoingCall> start(std::shared_ptr<FlightChannel> channel, const char* method,
                                             OutgoingMessage first, bool more = false,
                                             std::function<void()> changed = {},
                                             std::optional<std::string> authorization = {});
  ~OutgoingCall();
  OutgoingCall(const OutgoingCall&) = delete;
  OutgoingCall& operator=(const OutgoingCall&) = delete;

  /// Sends a message once the one before has left. Returns false if the call has ended meanwhile: see over(). Throws
  /// TimeoutError, InterruptedError. One thread at a time.
  bool send(OutgoingMessage message, int timeout_ms, const transport::InterruptHook& interrupted);
  /// Tells the server, once the last message has left, that there are no more. Returns and throws as send().
  bool end_messages(int timeout_ms, const transport::InterruptHook& interrupted);

  /// Returns the next answer, or null.
  std::unique_ptr<ReceivedMessage> take();
  /// Once all answers were taken and the call has ended: its status.
  std::optional<flight::Status> over() const;
  /// Once over() has a status: the header "authorization" of the answer, or empty.
  std::string answered_authorization() const;
  /// Whether take() or over() has something.
  bool has_news() const;
  void cancel() noexcept;
  /// Waits until take() or over() has something. Throws TimeoutError, InterruptedError.
  void wait(int timeout_ms, const transport::InterruptHook& interrupted) const;

 private:
  OutgoingCall(std::shared_ptr<FlightChannel> channel, std::function<void()> changed)
      : channel_(std::move(channel)), changed_(std::move(changed)) {}
  static OutgoingCall& of(void* data) noexcept { return **static_cast<std::shared_ptr<OutgoingCall>*>(data); }
  void note_change();
  template <typename Ready>
  void wait_until(Ready ready, int timeout_ms, const transport::InterruptHook& interrupted) const;
  bool wait_until_written(int timeout_ms, const transport::InterruptHook& interrupted) const;
  bool has_news_locked() const { return !answers_.empty() || status_.has_value(); }
  /// Asks for another answer, if there is room for it and none is asked for.
  bool wants_more_locked();

  const std::shared_ptr<FlightChannel> channel_;
  const std::function<void()> changed_;
  xd_call* call_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::condition_variable news_;
  std::deque<std::unique_ptr<ReceivedMessage>> answers_;
  std::optional<flight::Status> status_;
  std::string answered_authorization_;
  bool reading_ = false;
  bool read_all_ = false;
  bool writing_ = false;
  bool more_ = false;  // messages follow
};

}  // namespace crossdock::session
