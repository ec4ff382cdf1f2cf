#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "crossdock/core/log.h"
#include "transport/internal/accept_poll.h"
#include "transport/internal/handshake.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// The server's end of a handshake, as a transport speaks it. The destructor closes the client's connection, unless
/// complete() has passed it on.
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
  /// Readable when the client has sent something. The same during the whole handshake.
  virtual int descriptor() const noexcept = 0;
  /// Prepares descriptor() to be waited for. Returns false if there is something to read() already.
  virtual bool prepare_wait() { return true; }
  /// Whether read() can't go on before the client's socket has room.
  virtual bool wants_room() const noexcept { return false; }
  /// Reads what has arrived, if anything. Returns kWaiting, kReady or kEnded.
  virtual State read() = 0;
  /// Does one step of making the connection, at most about 0.1 ms. Returns kReady if there is another step, kConnected
  /// after it has set `*connection`, kEnded, or kWaiting if read() must return kReady again first. After an error,
  /// `*connection` is destroyed once the client was told.
  virtual State complete(std::unique_ptr<Connection>* connection) = 0;
  /// Tells the client why it is rejected. Errors are ignored: the client sees that the connection is closed.
  virtual void send(const Refused& refused) = 0;

 private:
  const std::string where_;
};

/// The handshakes of a listener that are under way, oldest first. Use it from one thread.
class HandshakeQueue {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxHandshakes = 64;  ///< Under way at once; the oldest is dropped for a new one.

  /// A client has `timeout` for its whole handshake. Clients are watched in `poll`, which must outlive this.
  HandshakeQueue(AcceptPoll& poll, std::chrono::milliseconds timeout, LogCallback log)
      : poll_(poll), timeout_(timeout), log_(std::move(log)) {}

  bool empty() const noexcept { return clients_.empty(); }
  std::size_t size() const noexcept { return clients_.size(); }
  /// Whether there is work for the next call already.
  bool has_work() const noexcept;
  /// Whether complete_oldest() has a client.
  bool has_ready() const noexcept;
  /// Whether every place is taken by a rejection that is delayed: then no client can be added.
  bool full() const noexcept;
  /// The time at which advance() has something to do even if no client sends anything.
  std::optional<Clock::time_point> deadline() const noexcept;

  void add(std::unique_ptr<PendingHandshake> handshake);
  /// Reads what clients have sent, and drops those whose time is over. Bounded work.
  void advance();
  /// Rejects the oldest clients if there are too many.
  void make_room();
  /// Does one step for the connection of the oldest client that is ready, and returns the connection if it is complete.
  std::unique_ptr<Connection> complete_oldest(bool reject_all);
  /// Prepares the descriptors of clients to be waited for.
  void prepare_wait();
  /// Logs that a client is rejected, and tells the client.
  void reject(PendingHandshake& handshake, const Refused& refused) noexcept;
  const Rejections& rejections() const noexcept { return rejections_; }
  /// Tells a client that it is rejected.
  static void send(PendingHandshake& handshake, const Refused& refused) noexcept;

 private:
  using State = PendingHandshake::State;

  struct Client {
    std::unique_ptr<PendingHandshake> handshake;
    Clock::time_point deadline;
    State state = State::kWaiting;
    bool news = true;                      // something may have arrived
    bool awaits_room = false;              // in the poll
    std::optional<Rejection> rejection{};  // sent at the deadline; until then the client is not watched
  };

  void drop(std::list<Client>::iterator client) noexcept;
  template <typename Step>
  void attempt(Client& client, Step step);
  void reject_as(std::uint64_t* reason, PendingHandshake& handshake, const Refused& refused) noexcept;
  void say(LogLevel level, const std::string& text) const {
    if (log_) log_(level, text);
  }

  AcceptPoll& poll_;
  const std::chrono::milliseconds timeout_;
  const LogCallback log_;
  std::list<Client> clients_;
  Rejections rejections_;
};

}  // namespace crossdock::transport
