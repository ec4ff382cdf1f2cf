#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/fork.h"
#include "core/unique_fd.h"
#include "crossdock/core/log.h"
#include "transport/internal/accept_poll.h"
#include "transport/internal/closing_ends.h"
#include "transport/internal/handshake_queue.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// The listening socket of a transport. The destructor removes its files.
class ServerSocket {
 public:
  explicit ServerSocket(LogCallback log) : log_(std::move(log)) {}
  virtual ~ServerSocket() = default;
  void say(LogLevel level, const std::string& text) const {
    if (log_) log_(level, text);
  }
  virtual int descriptor() const noexcept = 0;
  /// The URI for clients to connect to, without parameters.
  virtual std::string uri() const = 0;
  /// The address in logs and errors.
  virtual std::string where() const = 0;
  /// Begins the handshake with an accepted client. Needs no further descriptor. Throws Error if the client is lost.
  virtual std::unique_ptr<PendingHandshake> begin(UniqueFd client) = 0;
  /// Returns the reason why no client can be accepted for now; null if there is none.
  virtual const char* obstacle() const noexcept { return nullptr; }
  /// Releases memory for the next connection. Called when no client is left after a complete() without a connection.
  virtual void idle() noexcept {}
  /// The closed ends of this socket's connections, for whose progress the listener is to care; null: it has none.
  virtual ClosingEnds* closing() noexcept { return nullptr; }

 private:
  const LogCallback log_;
};

/// A listener at a socket: accepts clients, continues their handshakes, and rejects those that break the rules, take
/// too long or are too many. The transport adds its ServerSocket and PendingHandshake.
class SocketListener final : public Listener {
 public:
  /// `what` names the object in errors, as in "this tcp listener". A client has `timeout` for its whole handshake.
  /// Throws ResourceError, SystemError.
  SocketListener(std::unique_ptr<ServerSocket> socket, const char* what, std::chrono::milliseconds timeout);
  /// Waits for the closing ends that are left.
  ~SocketListener() override;
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  std::string uri() const override { return socket_->uri(); }
  int descriptor() const noexcept override { return poll_.descriptor(); }
  std::unique_ptr<Connection> accept() override;
  std::size_t handshakes() const noexcept override { return handshakes_.size(); }
  void reject_all(bool on) override { reject_all_ = on; }
  Rejections rejections() const noexcept override { return handshakes_.rejections(); }

 private:
  using Clock = std::chrono::steady_clock;

  bool accept_one();
  void reject_without_descriptor();
  std::unique_ptr<PendingHandshake> begin(UniqueFd client);
  std::unique_ptr<Connection> complete_oldest();
  void await_events();
  void back_off(const std::string& why);

  const ForkGuard fork_;
  const std::unique_ptr<ServerSocket> socket_;
  const std::string where_;
  const char* const what_;
  AcceptPoll poll_;
  UniqueFd reserve_;                          // closed for a moment to reject a client when no other descriptor is left
  std::optional<Clock::time_point> backoff_;  // no client is accepted until then
  HandshakeQueue handshakes_;
  bool reject_all_ = false;
  bool idle_due_ = false;      // complete() was called, and made no connection
  bool closing_news_ = false;  // an end was added: accept() looks in any case
};

}  // namespace crossdock::transport
