#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "flight/carrier.h"
#include "flight/status.h"
#include "session/flight/carrier_library.h"
#include "session/flight/message.h"

namespace crossdock::session {

/// A call at a Flight server: a queue of messages, and the status after them. Its base classes decide what is answered.
/// Lives until the carrier has said that it has ended, and as long as it has other owners. Thread-safe: the events come
/// on the carrier's threads.
class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call() = default;

  /// Connects a new call with the carrier's, and fills the events. Returns the events' data.
  void* attach(xd_call_events* events);

  /// Asks for the caller's next message: one at a time.
  void read();
  /// Queues a message.
  void push(OutgoingMessage message);
  /// Queues the end: the status is sent after the messages. Only the first call counts.
  void finish(flight::Status status, std::string authorization = {});
  /// Ends the call as soon as possible; what is queued is dropped.
  void cancel();

  /// The number of messages that haven't left yet.
  std::size_t queued() const;
  /// Whether nothing can be sent any more: the status was sent, or the caller is gone.
  bool over() const;

 protected:
  Call(std::shared_ptr<const CarrierLibrary> carrier, xd_call* call) noexcept
      : carrier_(std::move(carrier)), call_(call) {}

  virtual void on_message(std::unique_ptr<ReceivedMessage> message) = 0;
  /// The caller sends nothing more, or is gone.
  virtual void on_last() = 0;
  /// A message has left, or the call is over.
  virtual void on_change() noexcept {}

 private:
  void pump();
  template <typename Use>
  void with_call(Use use);

  const std::shared_ptr<const CarrierLibrary> carrier_;
  xd_call* const call_;  // valid until ended(), which follows finish()
  std::shared_ptr<Call> self_;
  mutable std::mutex mutex_;
  std::deque<OutgoingMessage> queue_;
  std::optional<flight::Status> end_;
  std::string authorization_;
  int users_ = 0;         // functions of the carrier that are being called: it isn't finished meanwhile
  bool writing_ = false;  // a message is with the carrier
  bool cancelled_ = false;
  bool finished_ = false;  // the carrier's finish() was called, or is about to be
};

}  // namespace crossdock::session
