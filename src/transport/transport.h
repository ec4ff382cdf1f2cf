#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/channel_role.h"
#include "crossdock/transport/options.h"
#include "device/region.h"
#include "transport/body_memory.h"

/// Connections that carry whole messages, tagged or not. This layer knows nothing of the protocol in them.
namespace crossdock::transport {

/// A device whose memory a client can open, in the same words in every process: Context::driver_name() and identity().
struct DeviceName {
  std::string driver;
  std::string identity;
  bool operator==(const DeviceName&) const = default;
};

/// The features and facts that both ends agreed on before the first message.
struct Agreement {
  std::uint64_t want_data = 0;
  std::optional<std::uint64_t> free_data{};  ///< Absent: addresses are held until the client disconnects.
  ChannelRole role = ChannelRole::kBoth;     ///< The role that the client asked for.
  bool error_messages = false;               ///< Both ends know message type 255.
  bool counted_leases = false;               ///< The client frees each address as often as it was sent.
  bool cancel = false;                       ///< Both ends know an End of Stream that is sent by the client.
  bool parameters = false;                   ///< Both ends know requests with parameters.
  bool as_specified = false;                 ///< The peer is strictly as specified: it has none of our features.
  Ways ways = Way::kMessage;                 ///< The ways that both ends know and want.
  bool one_sided = false;                    ///< Way::kRead costs the peer's processor nothing.
  bool wants_parts = false;                  ///< The client wants some columns only, see ConnectOptions.
  bool prefers_reads = false;                ///< The client asked for reads by the URI that it used.
  /// The longest body that this end accepts, in bytes: by value, or of what it reads of one.
  std::uint64_t max_body = 64ull << 30;
  std::optional<DeviceName> device{};  ///< The device whose memory the client opens, if there is one.
  bool checksums = false;              ///< Bytes changed on the way end the connection and are never delivered as data.
  /// Of a server: the client has proved who it is, by the token, a certificate, or as a user of this machine that may
  /// connect.
  bool authenticated = false;
  /// Of a server: the client may see what isn't for every consumer. It is a process of our own user or of root on this
  /// machine, or it has proved the token or a certificate.
  bool privileged = false;
  bool same_user = true;  ///< The peer is a process of our own user on this machine. False for every other machine.
  std::uint32_t peer_pid = 0;  ///< 0: on another machine, or unknown.
  std::uint32_t peer_uid = 0;
  std::string peer;  ///< The peer in readable form: "a client of shm:/run/x.sock (process 12)", "tcp://10.0.0.7:55112".
  std::string carrier{};  ///< What moves the bytes, in readable form: "shm", "tcp".
};

/// Returns "map", "read" or "message".
std::string_view way_name(Way way) noexcept;
/// Returns the way of this name, or nothing.
std::optional<Way> way_named(std::string_view name) noexcept;
/// Returns the names of a set, as in "map, message".
std::string to_text(Ways ways);

/// A server strictly as specified. It has no handshake: its URI says all that a client has to know.
struct SpecifiedServer {
  std::uint64_t want_data = 0;
  std::optional<std::uint64_t> free_data{};
  std::vector<std::byte> remote_handle{};  ///< The key for reads of its memory, in the transport's form; empty: none.
};

/// What a listening end has for its clients.
enum class Serves : std::uint8_t {
  kStreams,  ///< Streams of tables. Clients send requests and frees: bodies and regions are accepted from none.
  kPeers,    ///< Messages of equals (ChannelRole::kMessages): each end may send bodies and announce regions.
};

/// What a client asks for when it connects.
struct ConnectOptions {
  ChannelRole role = ChannelRole::kBoth;
  Ways ways = Way::kMap | Way::kRead | Way::kMessage;  ///< The ways that it accepts.
  /// It wants some columns of each batch only: reads of these cost less than a message with all.
  bool wants_parts = false;
  /// The device on which it opens regions of its memory. Null: it takes none.
  std::shared_ptr<device::Context> device{};
  /// Regions that are mapped keep their descriptors, one each: the client maps them once more, to write to them
  /// (device::Region::map_private()), or passes them on.
  bool keeps_descriptors = false;
  /// The server is strictly as specified; nothing: it has our handshake. Only for Transport::reaches_specified_peers().
  std::optional<SpecifiedServer> specified{};
};

/// Memory of the peer that bodies sent by address name, as it was announced. Immutable.
struct PeerRegion {
  PeerRegion(std::uint64_t its_base, std::uint64_t its_size, std::shared_ptr<const device::Region> memory,
             std::uint32_t its_number = kNoNumber)
      : number(its_number),
        base(its_base),
        size(its_size),
        here(memory ? memory->data() : nullptr),
        context(memory ? memory->context() : nullptr),
        mapped(std::move(memory)) {}

  static constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};

  /// Under which it was announced; kNoNumber where the transport doesn't tell, which then has no messages of equals.
  const std::uint32_t number;
  const std::uint64_t base;  ///< The peer's address of its first byte: an address minus this is an offset.
  const std::uint64_t size;  ///< In bytes.
  // The next two are those of `mapped`, so that a batch needs no other memory for them.
  const std::byte* const here;                     ///< The address of its first byte in this process, or null.
  const std::shared_ptr<device::Context> context;  ///< Of its device; null: the host.
  /// Way::kMap: the memory itself. Null: it must be read.
  const std::shared_ptr<const device::Region> mapped;
  /// Whether `length` bytes at the peer's `address` are inside.
  bool contains(std::uint64_t address, std::uint64_t length) const noexcept {
    return address >= base && address - base <= size && length <= size - (address - base);
  }
};

/// A part of a body: bytes of one PeerRegion, and where they go.
struct ReadPart {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::byte* to = nullptr;
};

/// Reads that were begun together. Used by the receiving half. Destroying it forgets the reads, but they may still
/// write to their memory, which Connection::read() keeps as long.
class Reading {
 public:
  virtual ~Reading() = default;
  /// Returns true once all bytes are there. Makes progress, as receive() does. Throws the error that ended the reads:
  /// ConnectionError (the peer is gone), ProtocolError (the peer refused them).
  virtual bool done() = 0;
};

/// A message that was received. `bytes` is a private copy, 8-aligned. Without an owner, the bytes belong to the
/// connection and are valid until its next receive(). A message that the peer sent by send_body() has an owner: its
/// bytes are 64-aligned memory of its own, valid as long as the owner is held, on any thread. They are in memory of a
/// device if the connection receives into a BodyMemory of a device.
struct Incoming {
  bool tagged = false;
  std::uint64_t tag = 0;
  ByteSpan bytes;
  std::shared_ptr<const void> owner{};
};

/// Either end of a connection. A transport without kMap and kRead implements nothing that concerns regions. One thread
/// may use the sending half while another uses the receiving half; each half may be used by one thread at a time.
/// Destroying it closes the connection: the peer sees the end after it has received every message that was sent.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual const Agreement& agreement() const noexcept = 0;

  // --- sending ---
  // No call blocks. If a call returns false, there was no room and nothing was sent: try again after the peer has made
  // progress. No other call is needed in between, on either half: a call that finds no room moves on what was sent
  // before. Two exceptions need receive(): ucx moves nothing on while the queue of messages for this end is full, and
  // it counts how much of some bodies the peer hasn't taken. The message is `head` followed by `tail`. Throws
  // ConnectionError once the peer has disconnected, InvalidArgumentError for a message over max_message().
  virtual bool send(ByteSpan head, ByteSpan tail) = 0;
  virtual bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) = 0;
  /// Corks the connection: the next message may be delayed until the one after it is sent, so that both leave in one
  /// packet. Any send uncorks it, even one that finds no room or throws.
  virtual void cork() noexcept {}
  virtual std::uint64_t max_message() const noexcept = 0;
  /// Sends a tagged message of any size up to max_body(): `parts` one after the other. The bytes are read in place,
  /// also after the call, until the whole message has been sent. `keep` keeps them alive until then, and is dropped on
  /// the thread that sends the last of them. The spans themselves are copied. Throws InvalidArgumentError for a message
  /// over max_body().
  virtual bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) = 0;
  virtual std::uint64_t max_body() const noexcept = 0;
  /// Whether bodies can be sent from memory of this device, and received into it, without a copy of ours. By default
  /// the host alone.
  virtual bool reaches(const device::Device& device) const noexcept { return device == device::Device{}; }
  /// Sends a tagged message as send_body() does, from memory of a device that reaches() is true for: `parts` one after
  /// the other, each followed by zeros up to a multiple of 64 bytes. The host reads none of them. Nothing may be
  /// pending on the memory. If it can't be read later, the connection ends. Throws std::logic_error for another device
  /// or for more than kMaxDeviceParts.
  virtual bool send_device_body(std::uint64_t tag, std::span<const ByteSpan> parts, const device::Device& device,
                                std::shared_ptr<const void> keep);
  static constexpr std::size_t kMaxDeviceParts = 2048;
  /// Returns the number of messages that were sent and that the peer hasn't received yet, for the limit of a window.
  /// Over a network, it is as of the last receive(): messages that the peer received since may still count.
  virtual std::size_t in_flight() = 0;
  /// Returns whether fewer than `window` messages are in flight. False has the same effect as a send() that found no
  /// room: after prepare_sleep() the peer rings once it has received something.
  virtual bool below_window(std::size_t window) = 0;
  /// Returns those of agreement().ways by which bodies in this region can reach this peer. Changes nothing.
  /// None for memory that the transport doesn't reach, as most don't reach that of devices.
  virtual Ways ways_of(const device::Region& region) const {
    return region.kind() == device::RegionKind::kDevice ? Ways{} : agreement().ways;
  }
  /// Prepares a region for being read by the peer, for example registers it. Returns false if the system refuses that:
  /// then its bodies can go as messages. Bounded work.
  virtual bool prepare_reads(const device::Region&) const { return true; }
  /// Makes a region known to the peer under a number, before the first message that names an address in it. Returns the
  /// address by which the peer knows its first byte; bodies name it plus an offset. Keeps what it needs of the region
  /// until retire(). Returns nothing if there is no room. Throws std::logic_error unless agreement().ways has kMap or
  /// kRead, ResourceError if the system can't pass or register it.
  virtual std::optional<std::uint64_t> announce(std::uint16_t number,
                                                const std::shared_ptr<const device::Region>& region);
  /// Withdraws a region's number. From the next message on, the number names no region, and may be announced anew at
  /// once; messages sent earlier still find the old region under it. The peer unmaps the region when its last batch is
  /// dropped. Returns false if there is no room: the peer wasn't told, so don't reuse the number yet.
  virtual bool retire(std::uint16_t number);
  /// Sends more of the messages that send() accepted but couldn't place whole yet, a bounded number of bytes. Returns
  /// true if nothing is left to send. Either half may call it; receive(), in_flight() and prepare_sleep() call it too.
  /// Destroying a connection drops whatever is left. Throws the errors of send().
  virtual bool flush() { return true; }
  /// Returns how many bytes this end has passed on in all calls so far, as a measure of a call's cost. Bytes that a
  /// send() has accepted and that still wait for room don't count yet. Answers to reads of the peer's count, and each
  /// of their parts for some more bytes.
  virtual std::uint64_t pushed() const noexcept { return 0; }

  // --- receiving ---
  /// Returns the next message, if there is one. Bounded work. Throws ConnectionError once the peer has disconnected and
  /// its last message was returned, ProtocolError if the peer violated the framing.
  virtual std::optional<Incoming> receive() = 0;
  /// Tells the peer now which messages were received, where that might wait for what comes next. For a receiver that
  /// expects nothing more for a while.
  virtual void acknowledge_all() {}
  /// Sets the memory for bodies that the peer sends by send_body(), from the next body on; null: a pool that belongs to
  /// the connection. An owner of a message that BodyMemory::allocate() returned is that owner: bytes of a device can be
  /// told by it.
  virtual void receive_into(std::shared_ptr<BodyMemory> memory) = 0;
  /// Returns the announced region that this address is in. Waits up to `timeout_ms` for an announcement that arrives
  /// after the message. Throws ProtocolError if none arrived, and InterruptedError, after which it may be called again.
  /// The address may be past the region's end: check PeerRegion::contains().
  virtual std::shared_ptr<const PeerRegion> peer_region(std::uint64_t address, int timeout_ms,
                                                        const InterruptHook& interrupted = nullptr);
  /// Returns whether peer_region() can answer without waiting, with a region or with an error. Bounded work.
  virtual bool knows_region(std::uint64_t /*address*/) { return true; }
  /// Begins to read bytes of announced regions. `keep` keeps the memory that the parts are read to; it is dropped when
  /// nothing is written there any more, on any thread that uses the connection or closes it. A Reading that is
  /// done counts as something to receive. Returns null if too much is under way: try again later. Throws
  /// ConnectionError; std::logic_error unless agreement().ways has kRead.
  virtual std::unique_ptr<Reading> read(std::span<const ReadPart> parts, std::shared_ptr<const void> keep);
  /// Called between streams: releases the connection's own references to regions, so that each region is unmapped when
  /// its last other owner is dropped. Only has an effect if the peer is known to take back regions that no stream under
  /// way and no lease names.
  virtual void release_regions() noexcept {}
  /// Called before the next request is sent: references regions again that still have another owner.
  virtual void keep_regions() noexcept {}

  // --- waiting, for the thread that receives ---
  /// While on, messages that have arrived don't count as something to receive, but reads that are done and the end of
  /// the connection do. For a receiver that has no room for another body.
  virtual void wait_for_reads_only(bool /*on*/) noexcept {}
  /// Returns whether receive() may have a message, the peer may have disconnected, or a send() that returned false may
  /// work now. Used for spinning: costs a few loads and no system call (over a network, one). It can't detect a peer
  /// that was killed, or a region that was sent: poll descriptor() from time to time as well.
  virtual bool readable() const { return true; }
  /// Returns whether at least kBulk bytes of bodies or reads are on their way to this end. WaitMode::kAuto sleeps at
  /// once then: they need longer than it spins, and spinning would take a processor from those who move them.
  virtual bool in_bulk() const { return false; }
  static constexpr std::uint64_t kBulk = 256 << 10;
  /// Tells the peer that this end is about to sleep. Returns false if something has arrived in the meantime: then don't
  /// sleep. After true, poll descriptor() for reading, then call wake().
  virtual bool prepare_sleep() = 0;
  virtual void wake() = 0;
  /// Readable when the peer has rung, sent a region, or disconnected; over a network, whenever something has arrived.
  virtual int descriptor() const noexcept = 0;
};

/// What a client is told that reject_all() rejects.
inline constexpr const char* kServerFull =
    "the server has reached its limit of connections (max_connections); try again when other clients have disconnected";

/// How many clients a listener has rejected, by reason.
struct Rejections {
  std::uint64_t version = 0;      ///< No common version.
  std::uint64_t not_allowed = 0;  ///< The user, the token or the certificate.
  std::uint64_t malformed = 0;    ///< The handshake breaks the rules.
  std::uint64_t late = 0;         ///< No handshake came in time.
  std::uint64_t full = 0;         ///< reject_all()
  std::uint64_t resources = 0;    ///< No memory or descriptors are left, or too many handshakes are under way.
  std::uint64_t protection = 0;   ///< TLS or checksums that one end demands and the other doesn't have.

  void add(const Rejections& other) noexcept {
    version += other.version;
    not_allowed += other.not_allowed;
    malformed += other.malformed;
    late += other.late;
    full += other.full;
    resources += other.resources;
    protection += other.protection;
  }
};

/// A listening end. Use it from one thread at a time. Destroying it stops listening and removes its files from the file
/// system.
class Listener {
 public:
  virtual ~Listener() = default;
  /// The URI for clients to connect to, without parameters.
  virtual std::string uri() const = 0;
  /// Readable when accept() has something to do: wait for it, then call accept(). The descriptor stays the same for the
  /// whole life of the listener.
  virtual int descriptor() const noexcept = 0;
  /// Accepts clients, continues their handshakes, and returns a connection whose handshake is complete, if there is
  /// one. Never blocks, and does bounded work, about 0.1 ms: a handshake may take several calls. Exceptions: over ucx,
  /// a call that takes a new client needs 1 to 6 ms, since UCX makes a worker for it; over fabric, a call in which a
  /// handshake ends early may need 0.2 s, to close the endpoint. After null, there is more to do while descriptor() is
  /// readable. A client that stalls in its handshake delays no other client. Clients
  /// that break the rules are dropped and reported through the log.
  virtual std::unique_ptr<Connection> accept() = 0;
  /// Lets clients strictly as specified read a region, and returns what their URI needs: tags, and the region's key.
  /// The region isn't kept. Throws UnsupportedError if this listener has no such clients, or they may read no memory;
  /// ResourceError.
  virtual SpecifiedServer offer(const std::shared_ptr<const device::Region>& region);
  /// The number of clients whose handshake is under way.
  virtual std::size_t handshakes() const noexcept = 0;
  /// While on, rejects every client that completes its handshake, with the message "the server has reached its limit of
  /// connections".
  virtual void reject_all(bool on) = 0;
  /// Returns how many clients it has rejected so far.
  virtual Rejections rejections() const noexcept { return {}; }
};

/// Waits until `connection` may have something to receive, until the deadline (steady clock, ns; 0: none), or until the
/// hook returns true. Returns false at the deadline. Throws InterruptedError.
bool wait_readable(Connection& connection, WaitMode mode, std::int64_t deadline_ns, const InterruptHook& interrupted);

}  // namespace crossdock::transport
