#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/fork.h"
#include "core/unique_fd.h"
#include "crossdock/core/log.h"
#include "transport/internal/accept_poll.h"
#include "transport/internal/handshake.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// The server's end of a handshake, as a transport speaks it. The destructor closes the client's socket.
///
/// No call waits. A step that throws ends the handshake, and the client is told why: as a thrown Rejection says; with
/// kMalformed for a ProtocolError; with kResources for any other Error, and for bad_alloc.
class PendingHandshake {
 public:
  enum class State : std::uint8_t {
    kWaiting,    ///< For the client's next bytes.
    kReady,      ///< The client has said everything: the next step is complete().
    kConnected,  ///< The connection is made.
    kEnded,      ///< The client has disconnected.
  };

  /// `where` names the client in logs and errors.
  explicit PendingHandshake(std::string where) : where_(std::move(where)) {}
  virtual ~PendingHandshake() = default;
  PendingHandshake(const PendingHandshake&) = delete;
  PendingHandshake& operator=(const PendingHandshake&) = delete;

  const std::string& where() const noexcept { return where_; }
  /// The client's socket.
  virtual int descriptor() const noexcept = 0;
  /// Reads what has arrived, if anything. Returns kWaiting, kReady or kEnded.
  virtual State read() = 0;
  /// Does one step of making the connection, at most about 0.1 ms. Returns kReady if there is another step, kConnected
  /// after it has set `*connection`, or kEnded. After an error, `*connection` is destroyed once the client was told.
  virtual State complete(std::unique_ptr<Connection>* connection) = 0;
  /// Tells the client why it is rejected. Errors are ignored: the client sees that the connection is closed.
  virtual void send(const Refused& refused) = 0;

 private:
  const std::string where_;
};

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

 private:
  const LogCallback log_;
};

/// A listener at a socket: accepts clients, continues their handshakes, and rejects those that break the rules, take
/// too long or are too many. The transport adds its ServerSocket and PendingHandshake.
class SocketListener final : public Listener {
 public:
  static constexpr std::size_t kMaxHandshakes = 64;  ///< Under way at once; the oldest is dropped for a new one.

  /// `what` names the object in errors, as in "this tcp listener". A client has `timeout` for its whole handshake.
  /// Throws ResourceError, SystemError.
  SocketListener(std::unique_ptr<ServerSocket> socket, const char* what, std::chrono::milliseconds timeout);

  std::string uri() const override { return socket_->uri(); }
  int descriptor() const noexcept override { return poll_.descriptor(); }
  std::unique_ptr<Connection> accept() override;
  std::size_t handshakes() const noexcept override { return clients_.size(); }
  void reject_all(bool on) override { reject_all_ = on; }

 private:
  using Clock = std::chrono::steady_clock;
  using State = PendingHandshake::State;

  struct Client {
    std::unique_ptr<PendingHandshake> handshake;
    Clock::time_point deadline;
    State state = State::kWaiting;
    bool news = true;                      // something may have arrived
    std::optional<Rejection> rejection{};  // sent at the deadline; until then the socket is not watched
  };

  bool has_work() const noexcept;
  bool full() const noexcept;
  void advance_all();
  bool accept_one();
  void reject_without_descriptor();
  std::unique_ptr<PendingHandshake> begin(UniqueFd client);
  void add(std::unique_ptr<PendingHandshake> handshake);
  void make_room();
  void drop(std::list<Client>::iterator client) noexcept;
  std::unique_ptr<Connection> complete_oldest();
  void await_events();
  template <typename Step>
  void attempt(Client& client, Step step) const;
  void reject(PendingHandshake& handshake, const Refused& refused) const noexcept;
  void back_off(const std::string& why);

  const ForkGuard fork_;
  const std::unique_ptr<ServerSocket> socket_;
  const std::string where_;
  const char* const what_;
  const std::chrono::milliseconds timeout_;
  AcceptPoll poll_;
  UniqueFd reserve_;                          // closed for a moment to reject a client when no other descriptor is left
  std::optional<Clock::time_point> backoff_;  // no client is accepted until then
  std::list<Client> clients_;                 // oldest first
  bool reject_all_ = false;
  bool idle_due_ = false;  // complete() was called, and made no connection
};

}  // namespace crossdock::transport
