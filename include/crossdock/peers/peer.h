#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/chrono.h"
#include "crossdock/core/export.h"
#include "crossdock/core/function.h"
#include "crossdock/core/log.h"
#include "crossdock/core/time_limit.h"
#include "crossdock/peers/message.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/transports.h"
#include "crossdock/transport/options.h"

/// Connections of equals that carry whole messages of buffers: docs/reference/protocol-peers.md. Within a machine a
/// large frame goes by address: memory of a pool is lent, and other memory is copied once into a pool. Over tcp frames
/// go by value.
namespace crossdock::peers {

class Link;

/// Called once, on a thread of the hub, with no lock held: with null, or with the error that ended the operation. It
/// must not throw, wait, or destroy the hub.
using Done = std::function<void(std::exception_ptr)>;
/// Called once, on a thread of the hub, with no lock held. It must not throw, wait, or destroy the hub.
using Notify = std::function<void()>;

/// What one end wants of its connections. Each end has its own.
struct CROSSDOCK_EXPORT PeerOptions {
  /// Sets the defaults: those of TransportOptions, but for the ring of shm.
  PeerOptions();
  /// Options of `shm:` and `tcp:`; the ring of a listener is 256 KiB unless this says otherwise.
  session::TransportOptions transports;
  /// Frames of this many bytes or more go by address, where the peer can map this end's memory; so do smaller ones of
  /// one message that are this many bytes together, and over 64 KiB.
  std::uint64_t share_from = 64 << 10;
  /// The most bytes by value of one message that is received: a longer one ends the connection.
  std::uint64_t max_message = 64ull << 30;
  /// The most frames of one message that is received.
  std::uint32_t max_frames = 1 << 16;
  /// The most messages that the peer may send ahead of recv(); at least 1.
  std::uint32_t window_messages = 64;
  /// The most bytes by value in these messages. Each frame counts 128 bytes more. A message of any size may be sent
  /// while no more than a quarter of these bytes is ahead.
  std::uint64_t window_bytes = 64ull << 20;
  /// The most regions of the peer's memory that are mapped here at once; more frames come by value. Each takes a
  /// descriptor. 0: an eighth of the descriptors that this process may have, between 16 and 4096.
  std::uint32_t max_regions = 0;
  /// The most bytes of this end's memory that the peer may have at once; more frames go by value. Memory counts by the
  /// pieces that are lent: blocks of pools, and what was received in one piece. One piece may be larger, if the peer
  /// has no other.
  std::uint64_t lease_limit = 1ull << 30;
  /// Of a listener: the most connections at once; more are rejected with a reason. At least 1. A connection counts
  /// until it is closed: see Peer::close(). At most 128 peers wait to be accepted; later ones wait in the system's
  /// queue.
  std::uint32_t max_connections = 1024;
  /// For connecting and the handshake, and for a peer that makes no progress while this end closes: see Peer::close().
  TimeLimit timeout = std::chrono::seconds(10);
};

/// Options of a Hub, for all its peers.
struct HubOptions {
  std::shared_ptr<session::Runtime> runtime{};  ///< Null: the default runtime, by whose pools memory is recognized.
  std::shared_ptr<device::Pool> pool{};         ///< What frames in other memory are copied into. Null: one of its own.
  LogCallback log{};                            ///< Empty: log lines are dropped.
};

/// Result of a call that doesn't wait.
template <class T>
struct [[nodiscard]] PollResult {
  T value{};                   ///< Null if nothing has arrived, or with an error.
  std::exception_ptr error{};  ///< Error of recv() or accept(): not TimeoutError or InterruptedError.

  /// Returns the value, null if nothing has arrived. Throws `error`.
  T get() && {
    if (error) std::rethrow_exception(error);
    return std::move(value);
  }
};

/// One end of a connection of equals. Thread-safe: messages go out in the order of the calls. Destroying it calls
/// abort(), unless close() was called; messages and frames that were received stay valid.
class CROSSDOCK_EXPORT Peer {
 public:
  /// For Hub and PeerListener, which make peers.
  explicit Peer(std::shared_ptr<Link> link);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Sends one message. `meta` is copied. Copies nothing else on the calling thread but frames by value of 64 KiB
  /// together: threads of the hub copy the others into the pool, and lend what lies in one.
  ///
  /// Returns true if it is over: the frames may be changed or dropped, and `done` isn't called. Otherwise `done` is
  /// called when that is so. It says nothing about the peer: the message may still be on its way. It also comes late
  /// while many messages wait for the peer, so that a sender that waits for it takes bounded memory. Throws
  /// ClosedError, ConnectionError (the connection has ended), InvalidArgumentError (too large for the peer), ForkError;
  /// then nothing was sent.
  bool send(std::span<const OutgoingFrame> frames, std::span<const std::byte> meta, Done done);
  /// Sends one message, and waits until its frames may be changed or dropped. Throws the errors of the other send(),
  /// InterruptedError (the message may be sent nevertheless).
  void send(std::span<const OutgoingFrame> frames, std::span<const std::byte> meta,
            const transport::InterruptHook& interrupted = {});

  /// Does recv() without waiting and without exceptions, for event loops. If the next message hasn't arrived yet, call
  /// when_readable().
  PollResult<std::optional<Message>> try_recv() noexcept;
  /// Has `notify` called when try_recv() may find a message or an error: perhaps at once, on this thread. A later call
  /// replaces an earlier one that wasn't called yet; null: none.
  void when_readable(Notify notify);
  /// Waits for the next message. One thread at a time may wait. Throws TimeoutError and InterruptedError, after which
  /// it may be called again; ConnectionError once the connection has ended and its last whole message was returned (the
  /// peer closed it, was killed, or broke the rules: ProtocolError); ClosedError after close() or abort(); ForkError.
  Message recv(const TimeLimit& timeout = {}, const transport::InterruptHook& interrupted = {});

  /// Sends nothing more and receives nothing more. `done` is called when everything that was sent is on its way, or the
  /// connection has ended; with TimeoutError if the peer took nothing for PeerOptions::timeout: what wasn't sent is
  /// dropped then. Messages that weren't received are dropped. The connection itself stays until the memory that each
  /// end has of the other is free again, if the peer answers within that time.
  void close(Done done);
  /// Ends at once: messages that weren't sent yet are dropped, and their `done` gets ClosedError. The peer's recv()
  /// throws ConnectionError after the messages that it has. The connection itself stays as after close().
  void abort() noexcept;
  /// Returns true after close() or abort() of this end, and in a forked child. A connection that the peer has ended
  /// isn't closed: recv() says so.
  bool closed() const noexcept;

  bool same_machine() const noexcept;           ///< It is connected by `shm:`.
  bool shares_memory() const noexcept;          ///< Large frames go by address.
  std::uint32_t pid() const noexcept;           ///< The peer's process on this machine; 0 if it isn't known.
  std::uint32_t uid() const noexcept;           ///< The peer's user on this machine.
  const std::string& version() const noexcept;  ///< The peer's version of Crossdock.
  const std::string& name() const noexcept;     ///< The peer in readable form.

  /// What a connection has sent and received so far.
  struct Stats {
    std::uint64_t sent = 0;               ///< Messages that left this end.
    std::uint64_t received = 0;           ///< Messages that arrived, whether recv() has returned them or not.
    std::uint64_t frames_by_address = 0;  ///< Of those sent.
    std::uint64_t bytes_by_address = 0;   ///< Of these frames.
    std::uint64_t bytes_by_value = 0;     ///< Of those sent: frames.
    std::uint64_t bytes_copied = 0;       ///< Into the pool.
    std::uint64_t regions_with_peer = 0;  ///< Regions of this end's memory that the peer has now.
    std::uint64_t regions_of_peer = 0;    ///< Regions of the peer's memory that this end has now.
    bool operator==(const Stats&) const = default;
  };
  /// Returns the numbers as they are now. Throws ForkError.
  Stats stats() const;

 private:
  const std::shared_ptr<Link> link_;
};

/// A listening end. Thread-safe. Destroying it stops listening; peers that were accepted stay connected.
class CROSSDOCK_EXPORT PeerListener {
 public:
  struct Impl;  ///< src/peers
  /// For Hub, which makes listeners.
  explicit PeerListener(std::shared_ptr<Impl> impl);
  ~PeerListener();
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;

  /// The URI to connect to, for the first of those that were asked for.
  const std::string& uri() const noexcept;
  /// The URIs to connect to, in the order of those that were asked for.
  const std::vector<std::string>& uris() const noexcept;
  /// Does accept() without waiting and without exceptions, as Peer::try_recv().
  PollResult<std::unique_ptr<Peer>> try_accept() noexcept;
  /// As Peer::when_readable().
  void when_readable(Notify notify);
  /// Waits for a peer. One thread at a time may wait. Throws TimeoutError, InterruptedError, ClosedError,
  /// ForkError.
  std::unique_ptr<Peer> accept(const TimeLimit& timeout = {}, const transport::InterruptHook& interrupted = {});
  /// Stops listening, drops peers that weren't accepted, and wakes accept(), which throws ClosedError. A second call
  /// does nothing.
  void close() noexcept;

 private:
  const std::shared_ptr<Impl> impl_;
};

/// Sends and receives the messages of any number of peers, with one thread for all of them, and a few more that copy
/// while there is something to copy. Thread-safe. After a fork it belongs to the parent: every call in the child throws
/// ForkError.
class CROSSDOCK_EXPORT Hub {
 public:
  /// Starts the thread. Throws ResourceError.
  explicit Hub(const HubOptions& options = {});
  /// Ends all connections, as Peer::abort() does, and joins the threads. Frames that were received stay valid.
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  /// Listens at each URI: "shm:", "shm:NAME", "tcp://HOST:PORT". Throws UriError, SchemeError, UnsupportedError (a
  /// scheme that has no peers), NotFoundError, ConnectionError, PermissionError, ResourceError.
  std::unique_ptr<PeerListener> listen(const std::vector<std::string>& uris, const PeerOptions& options = {});
  /// Connects, and waits until the peer has answered. Throws the errors of connecting (see session/client.h),
  /// HandshakeError (it is no listener for peers, or has another version: the text names both).
  std::unique_ptr<Peer> connect(const std::string& uri, const PeerOptions& options = {},
                                const transport::InterruptHook& interrupted = {});

  struct Impl;  ///< src/peers

 private:
  const std::shared_ptr<Impl> impl_;
};

}  // namespace crossdock::peers
