#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/array/stream.h"
#include "crossdock/core/export.h"
#include "crossdock/device/arena.h"
#include "crossdock/ipc/options.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/transports.h"
#include "crossdock/transport/options.h"

namespace crossdock::session {

struct ClientOptions {
  /// Forces how bodies of batches arrive. Absent: the best way that both ends have. get() throws UnsupportedError if a
  /// stream can't be sent so. Of two connections it applies to the one for bodies alone.
  std::optional<transport::Way> way{};
  int timeout_ms = 10000;  ///< For connecting and for each answer that list() and get() wait for; negative: forever.
  std::shared_ptr<const transport::TransportRegistry> transports;  ///< Null: make_transports().
  std::shared_ptr<Runtime> runtime{};                              ///< Null: the default runtime.
};

/// One line of a server's catalog.
struct CatalogEntry {
  std::string name;
  std::shared_ptr<const array::Schema> schema;  ///< Null for a factory, whose schema is known when it is called.
  std::int64_t rows = -1;                       ///< -1: not known.
  std::int64_t bytes = -1;
  std::string device;  ///< "cpu"
  /// How the bodies of a get() without options come over this connection. Absent if they can't come, if the server
  /// doesn't say, or of a client with two connections.
  std::optional<transport::Way> way{};
  std::string why{};  ///< The reason, for people; empty if the server doesn't say.
};

/// Limits how much list() accepts from a server. list() throws ResourceError for a catalog over one of these limits.
struct ListOptions {
  std::uint64_t max_entries = std::uint64_t{1} << 20;  ///< Also the limit of the number of batches in the catalog.
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  ///< Limit of the estimated memory of all names and schemas.
};

// Observers of a stream, for the tools of this project. Their arguments are defined in src/session/observe.h. An
// observer that isn't set costs one branch.
struct WireEvent;
struct BatchArrival;
/// Called on the thread that sends or receives; a lock of the connection may be held. The thread that drops a batch
/// sends the message that frees its addresses. This can be any thread, also after the end of the stream, so several
/// calls may run at the same time. The observer must not use the client, its readers or their batches. Exceptions that
/// it throws are discarded.
using WireObserver = std::function<void(const WireEvent&)>;
/// Called on the thread that runs Reader::next(), in the order of the stream, with no lock held. An exception that it
/// throws ends the stream.
using BatchObserver = std::function<void(const BatchArrival&)>;

struct GetOptions {
  std::vector<std::string> columns{};  ///< Top-level fields to keep, in this order; empty: all.
  bool all_columns = true;             ///< False: keeps exactly `columns`, even if it is empty.
  transport::WaitMode wait = transport::WaitMode::kAuto;
  int timeout_ms = -1;  ///< Limit of the wait for each batch; negative: no limit.
  /// The device on which batches are wanted. Memory of this device that the server has published is opened, without a
  /// copy, and where the transport reaches the device, bodies by value are received into its memory. Other batches are
  /// copied there by one copy each, which is over when next() returns. Absent: the host.
  std::optional<device::Device> device{};
  /// The consumer may write to batches on the host, also where they are in memory that the server has mapped, too: then
  /// it has a private copy of each page that it writes to, and nobody else sees its writes. Batches of one stream may
  /// share memory, such as dictionaries. Costs a mapping for each region of a table, and for each batch of a live
  /// stream. Publishing such batches passes on what nobody has written to without a copy.
  bool copy_on_write = false;
  /// Bytes of bodies that may be read from the server's memory ahead of the consumer, where bodies are read; a single
  /// body may always be. So reads overlap with each other and with the consumer's work.
  std::uint64_t read_ahead = 64ull << 20;
  /// How thoroughly batches are validated. Absent: in full if they come from another user or another machine.
  std::optional<array::Validation> validation{};
  ipc::Limits limits{};  ///< Limits of what the stream's messages may request.
  /// Memory in which bodies that arrive by value (for example over a network) are received. Publishing these batches
  /// later then copies nothing. Doesn't apply to compressed bodies, nor to shared memory, which stays where it is.
  /// Throws ResourceError when more is received than the arena's `reserve`, and ArenaFrozenError once the arena was
  /// published. Don't publish the arena while this stream is being read.
  std::shared_ptr<device::Arena> arena{};
  WireObserver on_message{};  ///< The connection keeps the observer until its next stream.
  BatchObserver on_batch{};
};

/// One stream. Its batches may outlive it, its client, and the server. Use it from one thread at a time. It may be
/// destroyed before the stream has ended.
///
/// next() throws TruncatedStreamError, LeaseLimitError, FileChangedError, ProtocolError, InvalidDataError,
/// TimeoutError, InterruptedError, RemoteError, ForkError, and the errors that GetOptions::arena names. After
/// TimeoutError or InterruptedError, next() may be called again. After any other error, each later call throws the same
/// error again.
class CROSSDOCK_EXPORT Reader : public array::BatchStream {
 public:
  ~Reader() override;
  const std::shared_ptr<const array::Schema>& schema() const override;
  std::optional<array::RecordBatch> next() override;
  /// next() without waiting, for event loops. Returns true if `*batch` was set: to the next batch, or to nullopt at the
  /// end of the stream. Returns false if the next batch hasn't arrived yet. In this case call prepare_sleep(); if it
  /// returns true, wait until descriptor() is readable, and call awake(). Then try again. Throws like next(), except
  /// TimeoutError and InterruptedError.
  bool try_next(std::optional<array::RecordBatch>* batch);
  /// Returns false if something has arrived in the meantime: then don't sleep, call try_next() again at once.
  bool prepare_sleep();
  void awake();
  /// The descriptor to wait for; -1 once the stream has ended. Get it again before each wait: with two connections it
  /// changes.
  int descriptor() const;
  /// The type of GetOptions::device.
  device::DeviceType device_type() const override;
  /// The bytes that were copied to bring batches to GetOptions::device, and to validate them in full on the host.
  std::uint64_t bytes_copied() const noexcept;
  /// Sets the hook that next() calls while it waits; see transport/options.h.
  void set_interrupt_hook(transport::InterruptHook hook);
  /// Ends the stream: later calls of next() throw ClosedError, unless the end was already reached. Batches that were
  /// returned before stay valid.
  void close();
  bool closed() const noexcept;

  struct Impl;  ///< src/session
  explicit Reader(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

/// A connection to a server. It has no thread of its own: all work is done on the calling threads. Thread-safe. Several
/// readers may be used at the same time: each has its own connection, and idle connections are reused.
class CROSSDOCK_EXPORT Client {
 public:
  /// Throws UriError, SchemeError, NotFoundError, ConnectionError, PermissionError, HandshakeError, TimeoutError,
  /// InterruptedError.
  explicit Client(const std::string& uri, ClientOptions options = {}, const transport::InterruptHook& interrupted = {});
  /// Uses separate connections for metadata and bodies. Both may lead to one server, or to two servers that publish the
  /// same data under the same names; the schemes may differ. Live streams need a single connection: get() throws
  /// UnsupportedError for them.
  Client(const std::string& metadata_uri, const std::string& data_uri, ClientOptions options = {},
         const transport::InterruptHook& interrupted = {});
  ~Client();  ///< close()
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Reads the server's whole catalog. Throws ResourceError (the catalog is over a limit of `options`),
  /// InvalidDataError (the stream isn't a catalog, or a text in it isn't UTF-8; the message says which), and the errors
  /// of Reader::next().
  std::vector<CatalogEntry> list(const ListOptions& options = {}, const transport::InterruptHook& interrupted = {});
  /// Requests the stream that is published as `name`. Returns once its schema has arrived. Throws NotFoundError (its
  /// message lists the names that exist), ConsumedError, and the errors of Reader::next().
  std::unique_ptr<Reader> get(const std::string& name, const GetOptions& options = {},
                              const transport::InterruptHook& interrupted = {});
  /// Closes the connections without a stream under way whose server has ended; they cost descriptors until then.
  /// Returns whether such a connection to a server that lives is left. Never blocks.
  bool drop_ended();
  /// Starts no new streams from now on. Readers that exist continue. Each connection stays open until its last batch is
  /// released.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::session
