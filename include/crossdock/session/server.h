#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/chrono.h"
#include "crossdock/core/export.h"
#include "crossdock/core/impl_ptr.h"
#include "crossdock/core/log.h"
#include "crossdock/core/time_limit.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/ipc/options.h"
#include "crossdock/session/flight.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/source.h"
#include "crossdock/session/stats.h"
#include "crossdock/session/transports.h"
#include "crossdock/transport/options.h"

namespace crossdock::session {

/// Options of a Server.
struct ServerOptions {
  /// Where to listen: one or more addresses. "shm:flights" is a name that belongs to this user, "shm:" picks a name,
  /// "shm:/run/x.sock" is a path (docs/reference/protocol-shm.md has the rules). "tcp:" picks a port of the loopback
  /// interface, "tcp://*:7700" listens on port 7700 of every address; "tcp+tls:" does the same over TLS.
  std::vector<std::string> uris = {"shm:"};
  std::uint32_t window = 64;  ///< Messages that a consumer may lag behind before its stream pauses; at least 1.
  /// Limits the bytes of live streams' memory that one consumer may hold, over all its streams. The same amount may
  /// wait to be sent to it by value. At least 1. Two batches of a stream always fit: the one that the consumer works
  /// on, and the next one. A consumer is a process of this machine with all its connections; over tcp, it is a
  /// connection.
  std::uint64_t lease_limit = 1ull << 30;
  /// After this time, bodies are sent by value, into the consumer's own memory, to a consumer that is at its lease
  /// limit, has taken everything, and frees nothing. Absent: never; the stream waits.
  TimeLimit lease_patience = std::chrono::milliseconds(10);
  /// Limits the buffers that a connection may hold when it requests another stream. Over the limit, that stream ends
  /// with a LeaseLimitError. Each lease costs the server memory, in addition to the tables that it keeps. At least 1.
  std::uint64_t max_leases = 1 << 20;
  /// Limits the streams that one consumer may have at once. Over the limit, a new stream ends with a LeaseLimitError.
  /// Counted are streams under way, streams of which the consumer holds batches, and streams that it has left while
  /// their source is still in a call of its producer. At least 1.
  std::uint32_t max_streams = 1024;
  /// Threads that read live sources; at least 1. Each call of a producer occupies a thread until it returns. So this is
  /// the number of sources that can wait for their next event at the same time; the sources of one consumer can occupy
  /// half of the threads. A stream whose source can't begin for 3 s, because none of these calls returns, ends with a
  /// ResourceError. A stream that has begun waits for its turn.
  std::uint32_t source_threads = 64;
  /// Limits the connections, over all URIs. Over the limit, new clients are rejected with a ConnectionError that says
  /// so. 0: no limit. A stream whose consumer has disconnected counts as a connection until its source has returned
  /// from its producer.
  std::uint32_t max_connections = 1024;
  transport::WaitMode wait = transport::WaitMode::kAuto;  ///< How the server's thread waits.
  ipc::Limits limits{};                                   ///< Limits of what published files may request.
  FlightOptions flight{};                                 ///< A Flight server beside; none by default.
  /// Whether every client may ask for the statistics (Client::server_stats()). Otherwise only processes of this user
  /// and of root on this machine, and clients over networks that have proved the token or a certificate that the server
  /// demands.
  bool stats_for_all = false;
  LogCallback log{};                                                 ///< Empty: log lines are dropped.
  std::shared_ptr<Runtime> runtime{};                                ///< Null: the default runtime.
  std::shared_ptr<const transport::TransportRegistry> transports{};  ///< Null: make_transports().
};

/// Options of Server::publish().
struct PublishOptions {
  /// Replaces the source that is published under this name, if there is one, in one atomic step.
  bool replace = false;
  /// For a table or a file that a known number of consumers is to get: withdraws the name by itself once so many
  /// streams of it have begun, so that its memory is freed with the last of them. Each connection of a client with two
  /// counts. 0: it stays.
  std::uint64_t times = 0;
  /// Waits for devices while a table is read. By default blocks in the driver; live sources always do.
  exchange::WaitFunction wait = exchange::wait_in_driver;
};

/// A source that Server::prepare() has read, for Server::commit() of the same server. Destroying it frees the source.
/// Move-only: one that was moved from is empty, and commit() refuses it.
class CROSSDOCK_EXPORT Prepared {
 public:
  Prepared(Prepared&& other) noexcept;
  Prepared& operator=(Prepared&& other) noexcept;
  ~Prepared();

 private:
  friend class Server;
  struct Impl;
  explicit Prepared(std::unique_ptr<Impl> impl) noexcept;
  detail::ImplPtr<Impl> impl_;
};

/// Serves tables and tensors by name over the Dissociated IPC protocol. Has one thread of its own, and more that are
/// started when there is work: up to ServerOptions::source_threads for live streams, and up to 8 for batch statistics
/// and copies of tables on devices. Thread-safe. After a fork it belongs to the parent: every call in the child throws
/// ForkError.
class CROSSDOCK_EXPORT Server {
 public:
  /// Starts to listen before it returns. Throws UriError, SchemeError (also if the module of a Flight server is
  /// missing), NotFoundError (the folder of a path), ConnectionError, PermissionError, ResourceError.
  explicit Server(ServerOptions options = {});
  /// Throws what the constructor would throw, as far as that can be said without listening: wrong options, URIs that
  /// are no addresses, a folder or a library that is missing. Looks no host up, and doesn't see that an address is in
  /// use. A folder below /run may be missing: service managers make those when they start a server. Loads the libraries
  /// of the networks that are named, and of Flight, which stay loaded; Flight's starts threads.
  static void check(const ServerOptions& options);
  /// Calls close(). Must not run on the thread of a source for which it would wait: a source must not hold the last
  /// owner of its server.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The URI to connect to, for the first of ServerOptions::uris. It is only an address, like "shm:flights": the
  /// handshake supplies want_data and free_data. So it stays the same when a server is restarted at that address.
  const std::string& uri() const noexcept;
  /// The URIs to connect to, for all of ServerOptions::uris.
  const std::vector<std::string>& uris() const noexcept;
  /// Location URIs as the Dissociated IPC specification defines them, in the same order: with want_data and free_data,
  /// for peers that read these from the URI. They differ after each start of a server, unless ServerOptions::uris sets
  /// them.
  const std::vector<std::string>& locations() const noexcept;
  /// The URI of the Flight server, "grpc://host:port"; empty if there is none.
  const std::string& flight_uri() const noexcept;
  /// Returns a location URI with a remote_handle, by which clients strictly as specified read the bodies of one table
  /// from this process's memory. Bodies of other sources that they request by it come by value. It holds until the
  /// table is withdrawn or replaced and no stream of it is left. The table must lie in one region of host memory. It
  /// needs an address of `ucx:` and UcxOptions::remote_reads. Throws NotFoundError, UnsupportedError, ClosedError.
  std::string location(const std::string& name);

  /// Publishes `source` under `name`, which may have any bytes; it is text if it is UTF-8 without NUL bytes. A table, a
  /// file or a tensor is read completely before it becomes visible.
  ///
  /// With `replace`, every request and every catalog read finds either the old source or the new one; there is no
  /// moment without a source. Streams under way continue with the old source, whose memory lives until the last batch
  /// is released. A client with two connections makes one request on each, and may get the old source on one and the
  /// new source on the other: use another name for such clients.
  ///
  /// Throws InvalidArgumentError (a name that is taken, without `replace`; an empty name; on a server that signs
  /// tickets, a name that begins as one; a null source, or one that was published before; a stream without a schema;
  /// `times` for a live stream or a factory; no tensor, or wrong paths of tensors), UnsupportedTypeError,
  /// InvalidDataError, ArenaFrozenError, NotFoundError and PermissionError (for files), FileChangedError,
  /// ResourceError, UnsupportedError (memory of a device without a driver), ClosedError, and the errors of the source
  /// and of devices' work. If it throws, nothing was published and nothing replaced. `source` is consumed in either
  /// case.
  void publish(const std::string& name, Source source, const PublishOptions& options = {});
  /// Does the first half of publish(): reads `source`, and makes nothing visible. Throws as publish() does.
  Prepared prepare(const std::string& name, Source source, const PublishOptions& options = {});
  /// Makes all `sources` visible and withdraws the names `withdrawn`, in one atomic step: every request and every
  /// catalog read finds all of these changes or none. Throws InvalidArgumentError (a name that is taken, of a source
  /// that was prepared without `replace`; a name that two sources have, or that is to be withdrawn as well; a Prepared
  /// that was moved from, or that another server made), NotFoundError (a name to withdraw that isn't published),
  /// ClosedError. If it throws, nothing has changed. `sources` are consumed in either case.
  void commit(std::vector<Prepared> sources, const std::vector<std::string>& withdrawn = {});
  /// Removes a name: new requests no longer find it. Streams under way continue, and the memory lives until the last
  /// batch is released. Throws NotFoundError, ClosedError.
  void withdraw(const std::string& name);

  /// Takes other keys for the tickets of the Flight server. The first one signs from now on; tickets of keys that
  /// aren't among them are refused from now on. Empty: a random key signs from now on, and the key that has signed so
  /// far goes on checking. Throws InvalidArgumentError (a key of less than 16 bytes, more than 16 keys; a server that
  /// signs no tickets): nothing has changed then.
  void replace_ticket_keys(const std::vector<std::string>& keys = {});

  /// Returns a snapshot, also while the server drains. Waits for the server's thread, and for no peer. Throws
  /// ClosedError, ForkError.
  ServerStats stats() const;

  /// Prepares for the end: from now on every request, also for the catalog, and every publish() gets a ClosedError.
  /// Requests for the server's statistics (Client::server_stats()) are still answered, and streams under way continue.
  /// Waits until the streams have ended and their consumers have taken all messages and read all bodies, for
  /// `timeout` at most. Returns whether they have. Tables that Flight clients are sending
  /// aren't waited for. Nothing is closed: call close() afterwards. May be called again, to wait longer. Throws
  /// InterruptedError, ClosedError; InvalidArgumentError, and does nothing, if a source of this server calls it without
  /// a timeout.
  bool drain(const TimeLimit& timeout = {}, const transport::InterruptHook& interrupted = {});

  /// Ends every stream under way with an error at its consumer, stops listening, removes the socket, and joins the
  /// threads. Blocks until the source threads have returned from their producers. Batches that consumers hold stay
  /// valid. May be called twice.
  ///
  /// Throws InvalidArgumentError, and does nothing, if it is called by a source for which it would wait. Throws
  /// InterruptedError after everything was closed except a source that is still in its producer: the next close(), or
  /// the destructor, waits for that.
  void close(const transport::InterruptHook& interrupted = {});

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::session
