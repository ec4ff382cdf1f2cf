#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "crossdock/core/fork.h"
#include "crossdock/core/unique_fd.h"

namespace crossdock::transport {

/// One descriptor for all events that a listener waits for: clients in the system's queue, clients in their handshake,
/// a deadline, and its own work that was postponed. Each of these is registered once. Use it from one thread.
class AcceptPoll {
 public:
  using Clock = std::chrono::steady_clock;

  /// Watches a listening socket, which must outlive this. `where` is the beginning of error texts. Throws
  /// ResourceError, SystemError.
  AcceptPoll(int listening_socket, std::string where);
  AcceptPoll(const AcceptPoll&) = delete;
  AcceptPoll& operator=(const AcceptPoll&) = delete;

  /// Readable when look() has something to report.
  int descriptor() const noexcept { return poll_.get(); }

  /// Watches a client's socket until the Watch is destroyed, which must happen before the socket is closed. In a forked
  /// child, its destructor does nothing: the epoll instance belongs to the parent.
  class Watch {
   public:
    Watch() noexcept = default;
    Watch(const AcceptPoll* poll, int socket) noexcept : poll_(poll), socket_(socket) {}
    Watch(Watch&& other) noexcept : poll_(std::exchange(other.poll_, nullptr)), socket_(other.socket_) {}
    Watch& operator=(Watch&& other) noexcept {
      std::swap(poll_, other.poll_);
      std::swap(socket_, other.socket_);
      return *this;
    }
    ~Watch() {
      if (poll_ != nullptr) poll_->forget(socket_);
    }

   private:
    const AcceptPoll* poll_ = nullptr;
    int socket_ = -1;
  };
  /// look() sets `*news` when the socket is readable or its peer has disconnected. `*news` must outlive the Watch.
  /// Throws ResourceError, SystemError.
  Watch watch(int socket, bool* news);

  /// Collects the events since the last call. Returns true if a client waits in the queue.
  bool look();
  /// Whether a client in the queue makes descriptor() readable.
  void set_accepting(bool accepting);
  /// Makes descriptor() readable from `deadline` on, until the next call.
  void set_deadline(std::optional<Clock::time_point> deadline);
  /// Sets whether there is more work to do at once. While it is set, descriptor() is readable.
  void set_more(bool more);

 private:
  void add(int descriptor, void* data);
  void change(int descriptor, bool watched, void* data) const;
  void forget(int socket) const noexcept;

  const ForkGuard fork_;
  const std::string where_;
  const int socket_;
  const UniqueFd poll_;
  const UniqueFd timer_;
  const UniqueFd always_;  // an eventfd that is always readable
  bool accepting_ = true;
  bool more_ = false;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace crossdock::transport
