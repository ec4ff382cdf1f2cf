#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/fork.h"
#include "core/unique_fd.h"

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

  /// Watches a client's socket: look() sets `*news` when it is readable or its peer has disconnected. Call forget()
  /// before the socket is closed. Throws ResourceError, SystemError.
  void watch(int socket, bool* news) { add(socket, news); }
  /// Whether look() also sets the flag of a watched client when there is room in its socket. Throws SystemError.
  void await_room(int socket, bool* news, bool on) const;
  /// Ends watch(). Does nothing in a forked child: the epoll instance belongs to the parent.
  void forget(int socket) const noexcept;

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
