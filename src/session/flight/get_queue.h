#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "core/event_fd.h"
#include "session/flight/get_call.h"
#include "transport/transport.h"

namespace crossdock::session {

/// Calls of DoGet that wait for the server's I/O thread. Thread-safe.
class GetQueue {
 public:
  void add(std::shared_ptr<GetCall> call);
  /// Returns the next call, or null.
  std::shared_ptr<GetCall> next();
  /// From now on, new calls end with an error: the server is closed.
  void close();
  const EventFd& event() const noexcept { return event_; }

 private:
  std::mutex mutex_;
  std::deque<std::shared_ptr<GetCall>> waiting_;
  bool closed_ = false;
  const EventFd event_{"the queue of a Flight server"};
};

/// The I/O thread's end of the queue.
class GetListener final : public transport::Listener {
 public:
  explicit GetListener(std::shared_ptr<GetQueue> queue) noexcept : queue_(std::move(queue)) {}
  ~GetListener() override { queue_->close(); }
  GetListener(const GetListener&) = delete;
  GetListener& operator=(const GetListener&) = delete;

  std::string uri() const override { return "grpc:"; }
  int descriptor() const noexcept override { return queue_->event().get(); }
  std::unique_ptr<transport::Connection> accept() override;
  std::size_t handshakes() const noexcept override { return 0; }
  void reject_all(bool on) override { full_ = on; }
  transport::Rejections rejections() const noexcept override { return rejections_; }

 private:
  const std::shared_ptr<GetQueue> queue_;
  bool full_ = false;
  transport::Rejections rejections_;
};

}  // namespace crossdock::session
