#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crossdock/core/bytes.h"
#include "crossdock/core/channel_role.h"
#include "crossdock/core/export.h"
#include "crossdock/device/region.h"
#include "crossdock/transport/body_memory.h"

/// What the network can do. It knows nothing of the protocol: bytes go in whole and come out whole, tagged or not.
namespace crossdock::transport {

/// What two ends agreed on before the first message.
struct Agreement {
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
  ChannelRole role = ChannelRole::kBoth;  ///< The role that the client asked for.
  bool error_messages = false;            ///< Both ends know message type 255.
  bool counted_leases = false;            ///< The client frees each address as often as it was sent.
  bool cancel = false;                    ///< Both ends know an End of Stream from the client.
  bool checksums = false;      ///< Bytes changed on the way end the connection instead of being taken for data.
  bool same_user = true;       ///< Another process of our own user on this machine. False for every other machine.
  std::uint32_t peer_pid = 0;  ///< 0: on another machine, for all that is known.
  std::uint32_t peer_uid = 0;
  std::string peer;  ///< Who that is, for people: "a client of shm:/run/x.sock (process 12)", "tcp://10.0.0.7:55112".
};

/// A message that arrived. The bytes are a private copy, 8-aligned. Without an owner they are the connection's, and
/// valid until its next receive(). What came by send_body() has an owner: 64-aligned memory of its own, valid as long
/// as the owner is held, on whatever thread.
struct Incoming {
  bool tagged = false;
  std::uint64_t tag = 0;
  ByteSpan bytes;
  std::shared_ptr<const void> owner{};
};

/// Called by a blocking call now and then, and after every signal: true makes that call throw InterruptedError. Called with no
/// lock held.
using InterruptHook = std::function<bool()>;

/// One connection, either end. The sending half and the receiving half may be used from two threads at once; each half
/// by one at a time. Destroying it closes it: the peer sees the end once it has taken what was sent.
class CROSSDOCK_EXPORT Connection {
 public:
  virtual ~Connection() = default;
  virtual const Agreement& agreement() const noexcept = 0;

  // --- sending ---
  // Nothing blocks. False: there is no room, and nothing was sent; try again after progress. Throws ConnectionError
  // once the peer is gone, InvalidArgumentError for a message over max_message(). The message is head followed by tail:
  // a gather of two.
  virtual bool send(ByteSpan head, ByteSpan tail) = 0;
  virtual bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) = 0;
  /// Corks the connection: the next message may be delayed until the one after it is sent, so that both leave in one
  /// packet. Any send uncorks it, even one that finds no room or throws.
  virtual void cork() noexcept {}
  virtual std::uint64_t max_message() const noexcept = 0;
  /// A tagged message of any size up to max_body(): `parts` back to back. The bytes are read in place, also after the
  /// call, until the message is out: `keep` holds them, and is dropped then, on whichever thread pushed the last of
  /// them. The spans themselves are copied. Throws InvalidArgumentError for a message over max_body().
  virtual bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) = 0;
  virtual std::uint64_t max_body() const noexcept = 0;
  /// Messages sent that the peer hasn't taken: what a window is measured by. Over a network, as far as receive() has
  /// heard: what was taken meanwhile may still count.
  virtual std::size_t in_flight() = 0;
  /// Whether fewer than `window` messages are in flight. False counts like a send() that found no room: prepare_sleep()
  /// then has the peer ring once it has taken something.
  virtual bool below_window(std::size_t window) = 0;
  /// Hands a region over under a number, before the first message that names it. False: no room. Throws
  /// std::logic_error unless shares_memory().
  virtual bool announce(std::uint16_t number, const device::Region& region) = 0;
  /// From the next message on, the number names nothing, and may be announced anew at once; what was sent before still
  /// finds the old region under it. The peer unmaps when its last batch is dropped. False: no room; nothing was said,
  /// so don't reuse the number yet.
  virtual bool retire(std::uint16_t number) = 0;
  virtual bool shares_memory() const noexcept = 0;
  /// Pushes on what send() accepted but couldn't place whole yet, a bounded number of bytes. True: nothing is left of
  /// it. Either half may call it; receive(), in_flight() and prepare_sleep() do. Destroying a connection drops what is
  /// left. Throws as send() does.
  virtual bool flush() { return true; }
  /// Bytes that the sending half has passed on, ever, in whichever call: what that call cost. Bytes that a send() has
  /// taken and that wait for room aren't among them yet.
  virtual std::uint64_t pushed() const noexcept { return 0; }

  // --- receiving ---
  /// The next message, if there is one. Bounded work. Throws ConnectionError at the peer's end (after its last
  /// message), ProtocolError if it broke the framing.
  virtual std::optional<Incoming> receive() = 0;
  /// Where bodies that come by send_body() go, from the next one on; null: a pool of the connection's own.
  virtual void receive_into(std::shared_ptr<BodyMemory> memory) = 0;
  /// The region that the peer announced under this number; waits up to `timeout_ms` for an announcement that trails.
  /// Throws ProtocolError if none came; InterruptedError, and may be called again.
  virtual std::shared_ptr<const device::Region> region(std::uint16_t number, int timeout_ms,
                                                       const InterruptHook& interrupted = nullptr) = 0;

  /// Whether region() has an answer at once: the region, or an error. Bounded work.
  virtual bool knows_region(std::uint16_t number) = 0;
  /// Between streams: lets each region go with its last other owner, where the peer is known to take back what no
  /// stream under way and no lease names.
  virtual void release_regions() noexcept {}
  /// Before the next request is sent: holds regions again that have another owner.
  virtual void keep_regions() noexcept {}

  // --- waiting, for the thread that receives ---
  /// Whether receive() may have something, the peer has gone, or a send() that returned false may work now. A few
  /// loads, no system call (over a network: one): what spinning looks at. It can't see a peer that was killed, or a
  /// region that was sent: poll descriptor() now and then too.
  virtual bool readable() const { return true; }
  /// Says to the peer that we are about to sleep. False: something has arrived meanwhile, don't. After true, poll
  /// descriptor() for reading, then wake().
  virtual bool prepare_sleep() = 0;
  virtual void wake() = 0;
  /// Readable when the peer rang, sent a region, or went away; over a network, whenever something arrived.
  virtual int descriptor() const noexcept = 0;
};

/// A listening end. One thread at a time. Destroying it stops listening and removes what it put into the file system.
class CROSSDOCK_EXPORT Listener {
 public:
  virtual ~Listener() = default;
  /// The URI that clients connect to, without parameters.
  virtual std::string uri() const = 0;
  /// Readable when accept() has something to do: wait on it, then call accept(). The descriptor stays the same for the
  /// listener's whole life.
  virtual int descriptor() const noexcept = 0;
  /// Takes clients in, goes on with their handshakes, and returns a connection whose handshake is complete, if there is
  /// one. Bounded work, some 0.1 ms: a handshake may take several calls, and after a null there is more to do while
  /// descriptor() is readable. Never blocks; a client that stalls in its handshake holds up nobody. Bad clients are
  /// dropped and reported through the log.
  virtual std::unique_ptr<Connection> accept() = 0;
  /// Clients whose handshake is under way.
  virtual std::size_t handshakes() const noexcept = 0;
  /// While on, rejects every client that completes its handshake, with the message "the server has as many connections
  /// as it takes".
  virtual void reject_all(bool on) = 0;
};

/// How to wait for something that needs both ends.
enum class WaitMode : std::uint8_t {
  kAuto,   ///< Spin for some tens of microseconds, then sleep.
  kSpin,   ///< Never sleep: lowest latency, a whole core.
  kBlock,  ///< Sleep at once; a server first looks for some microseconds, less than it takes to fall asleep.
};

/// Waits until `connection` may have something to receive, the deadline (steady clock, ns; 0: none) passes, or the hook
/// says stop. Returns false at the deadline. Throws InterruptedError.
CROSSDOCK_EXPORT bool wait_readable(Connection& connection, WaitMode mode, std::int64_t deadline_ns,
                                    const InterruptHook& interrupted);

}  // namespace crossdock::transport
