#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/core/log.h"
#include "crossdock/ipc/metadata.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/source.h"
#include "crossdock/session/transports.h"
#include "crossdock/transport/transport.h"

namespace crossdock::session {

struct ServerOptions {
  /// Where to listen, one or more. "shm:flights" is a name of this user's own, "shm:" picks one, "shm:/run/x.sock" is a
  /// path (transport::shm_listen() says more); "tcp:" picks a port of the loopback, "tcp://*:7700" is one of every
  /// address.
  std::vector<std::string> uris = {"shm:"};
  std::uint32_t window = 64;  ///< Messages that a consumer may be behind before its stream pauses; at least 1.
  /// Bytes of live streams' memory that one consumer may hold, over all its streams; as many may wait to go to it by
  /// value. At least 1. Of one stream two batches always fit: the one that it works on, and the next. A consumer is a
  /// process of this machine, with all its connections; over tcp, a connection.
  std::uint64_t lease_limit = 1ull << 30;
  /// How long a consumer that took everything may sit at its lease limit until bodies go to it by value, into its own
  /// memory, as long as it frees nothing; negative: for ever, the stream waits.
  int lease_patience_ms = 10;
  /// Buffers that a connection may hold when it asks for another stream, which then ends with a LeaseLimitError: what
  /// is out costs the server memory, beside what it keeps of the tables; at least 1.
  std::uint64_t max_leases = 1 << 20;
  /// Streams that one consumer may have at once, beyond which another ends with a LeaseLimitError: those under way,
  /// those of which it holds batches, and those that it has left whose source is still in a call of its producer; at
  /// least 1.
  std::uint32_t max_streams = 1024;
  /// Threads that read live sources; at least 1. Each call of a producer takes one for as long as it lasts, so this is
  /// how many feeds can wait for their next event at once; one consumer's can take half of them. A stream whose source
  /// can't begin for 3 s, because none of these calls returns, ends with a ResourceError; one that has begun waits for
  /// its turn.
  std::uint32_t source_threads = 64;
  /// Connections, at all URIs together, beyond which newcomers are rejected with a ConnectionError that says
  /// so; 0: no limit. A stream whose consumer has gone counts as one until its source is out of its producer.
  std::uint32_t max_connections = 1024;
  transport::WaitMode wait = transport::WaitMode::kAuto;  ///< How the server's thread waits.
  ipc::Limits limits{};                           ///< Of what published files may ask of us.
  LogCallback log;
  std::shared_ptr<Runtime> runtime;                                ///< Null: the default runtime.
  std::shared_ptr<const transport::TransportRegistry> transports;  ///< Null: make_transports().
};

/// What each source cost, what each consumer holds, and counts since the server's start: a snapshot.
struct SourceStats {
  std::string name;
  std::string kind;        ///< "table", "arena", "file", "snapshot", "live", "factory".
  std::int64_t rows = -1;  ///< -1: not known (live).
  std::int64_t bytes = -1;
  std::uint64_t bytes_copied = 0;  ///< By the one copy of heap data, or by the live stream's.
  std::uint64_t consumers = 0;     ///< Streams that were started.
};
struct ConsumerStats {
  std::uint32_t pid = 0;  ///< 0: on another machine, for all that is known.
  std::string peer;       ///< Who it is, for people: transport::Agreement::peer.
  std::string name;       ///< What it reads, empty between streams.
  std::uint64_t batches = 0, rows = 0, bytes = 0;
  std::uint64_t window = 0;     ///< Messages that it may be behind.
  std::uint64_t in_flight = 0;  ///< Messages sent and not taken.
  std::uint64_t leases = 0;     ///< Buffers out.
  std::uint64_t leased_bytes = 0;
  std::int64_t oldest_lease_ms = -1;  ///< How long the oldest of them has been out; -1: there is none.
  std::uint64_t bytes_by_value = 0;   ///< Of `bytes`, those that went by value.
};
struct ServerStats {
  std::vector<SourceStats> sources;
  std::vector<ConsumerStats> consumers;
  std::uint64_t connections = 0;          ///< Since the start.
  std::uint64_t protocol_errors = 0;      ///< Connections ended for breaking the protocol.
  std::uint64_t bitmap_bytes_copied = 0;  ///< Bitmaps of slices that didn't start at a byte.
};

struct PublishOptions {
  /// Takes the place of what is published under the name, if anything is, in one step.
  bool replace = false;
};

/// Serves tables by name over the Dissociated IPC protocol. Owns one thread, and ServerOptions::source_threads more at
/// most, started as live streams need them. Thread-safe. After a fork it belongs to the parent: every call in the child
/// throws ForkError.
class CROSSDOCK_EXPORT Server {
 public:
  /// Listens when it returns. Throws UriError, SchemeError, NotFoundError (a path's folder), ConnectionError,
  /// PermissionError, ResourceError.
  explicit Server(ServerOptions options = {});
  /// close(). Not on the thread of a source that it would wait for: a source must not hold the last owner of its
  /// server.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// What clients connect to, for the first of ServerOptions::uris: an address alone, as in "shm:flights". The
  /// handshake tells want_data and free_data, so it stays the same when a server starts again at that address.
  const std::string& uri() const noexcept;
  /// Of all of them.
  const std::vector<std::string>& uris() const noexcept;
  /// Location URIs as the Dissociated IPC specification defines them, in the same order: with want_data and free_data.
  /// For peers that read these from the URI. Each start of a server has others, unless ServerOptions::uris gives them.
  const std::vector<std::string>& locations() const noexcept;

  /// Offers `source` under `name`. A table or file is read first, and offered once it is whole.
  ///
  /// With `replace` each request, and each look at the catalog, finds either the old source or the new one, never
  /// neither. Streams under way go on with the old one, whose memory lives until the last batch is released. A client
  /// with two connections makes a request on each, and may meet the old source on one and the new one on the other: use
  /// another name for such clients.
  ///
  /// Throws InvalidArgumentError (a name that is taken, unless it is replaced; empty, no UTF-8 or with a NUL byte; a
  /// source that is null), UnsupportedTypeError, InvalidDataError, ArenaFrozenError, NotFoundError and PermissionError
  /// (a file's), FileChangedError, ResourceError, ClosedError, and what the source throws. On a throw nothing has
  /// changed: nothing is published, and nothing replaced. The source is gone either way.
  void publish(const std::string& name, Source source, PublishOptions options = {});
  /// New consumers no longer find it; streams under way go on, and the memory lives until the last batch is released.
  /// Throws NotFoundError.
  void withdraw(const std::string& name);

  ServerStats stats() const;

  /// Ends every stream under way with an error at its consumer, stops listening, removes the socket, joins the threads.
  /// Batches that consumers hold stay valid. May be called twice; blocks until the sources' threads are out of their
  /// producers.
  /// Throws InvalidArgumentError, with nothing done, if a source that it would wait for calls it; InterruptedError,
  /// with everything closed but a source still in its producer: the next close(), or the destructor, waits for that.
  void close(const transport::InterruptHook& interrupted = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::session
