#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "crossdock/core/fork.h"
#include "crossdock/core/unique_fd.h"

namespace crossdock::transport {

/// One descriptor for all that a listener waits for: clients in the system's queue, clients in their handshake, a
/// deadline, and work of its own that it has put off. Each is registered once. One thread.
class AcceptPoll {
 public:
  using Clock = std::chrono::steady_clock;

  /// Watches a listening socket, which must outlive this. `where` starts the texts of errors. Throws ResourceError,
  /// SystemError.
  AcceptPoll(int listening_socket, std::string where);
  AcceptPoll(const AcceptPoll&) = delete;
  AcceptPoll& operator=(const AcceptPoll&) = delete;

  /// Readable when look() would find something.
  int descriptor() const noexcept { return poll_.get(); }

  /// Watches a client's socket until it is destroyed, which must come before the socket is closed. In a forked child
  /// its destruction does nothing: what is watched is the parent's.
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
  /// `*news` is set by look() when the socket is readable or its peer has gone. It must outlive the Watch. Throws
  /// ResourceError, SystemError.
  Watch watch(int socket, bool* news);

  /// Sees what has happened since. True: a client waits in the queue.
  bool look();
  /// Whether a client in the queue makes descriptor() readable.
  void set_accepting(bool accepting);
  /// Makes descriptor() readable at `deadline`, until the next call.
  void set_deadline(std::optional<Clock::time_point> deadline);
  /// Whether there is more to do at once: descriptor() is readable meanwhile.
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
  const UniqueFd always_;  // an event that has happened
  bool accepting_ = true;
  bool more_ = false;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace crossdock::transport
