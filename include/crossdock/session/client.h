#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/array/stream.h"
#include "crossdock/core/chrono.h"
#include "crossdock/core/export.h"
#include "crossdock/core/function.h"
#include "crossdock/core/impl_ptr.h"
#include "crossdock/core/time_limit.h"
#include "crossdock/device/arena.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/ipc/options.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/stats.h"
#include "crossdock/session/tensors.h"
#include "crossdock/session/transports.h"
#include "crossdock/transport/options.h"

namespace crossdock::transport {
class BodyMemory;
}

namespace crossdock::session {

/// Options of a Client.
struct ClientOptions {
  /// Forces how bodies of batches arrive. Absent: the best way that both ends have. get() throws UnsupportedError if a
  /// stream can't be sent so. Of two connections it applies to the one for bodies alone.
  std::optional<transport::Way> way{};
  TimeLimit timeout = std::chrono::seconds(10);  ///< For connecting and for each answer that list() and get() wait for.
  std::shared_ptr<const transport::TransportRegistry> transports{};  ///< Null: make_transports().
  std::shared_ptr<Runtime> runtime{};                                ///< Null: the default runtime.
  /// Of a Flight server: also reads from locations at other hosts than its own, and, if it was asked by grpc+tls, from
  /// ones at other machines that aren't encrypted. Such a server decides to which addresses this process connects.
  bool any_location = false;
};

/// One line of a server's catalog.
struct CatalogEntry {
  std::string name;  ///< As it was published: text in UTF-8 without NUL bytes, or other bytes.
  /// Of tensors: without fields; tensor_content() says what it says of them. Null for a factory, whose schema is known
  /// when it is called.
  std::shared_ptr<const array::Schema> schema;
  std::int64_t rows = -1;   ///< -1: not known, or tensors.
  std::int64_t bytes = -1;  ///< Of all bodies as they are sent, with dictionaries; -1: not known.
  std::string device;       ///< "cpu"
  /// How the bodies of a get() without options come over this connection. Absent if they can't come, if the server
  /// doesn't say, or of a client with two connections.
  std::optional<transport::Way> way{};
  std::string why{};  ///< The reason, for people; empty if the server doesn't say.
  /// Tells whether the data changed: two versions of a name that are equal, and not -1, are of the same data, also
  /// after a restart of the server. -1: a live stream, a factory, or the server doesn't say.
  std::int64_t version = -1;
};

/// Limits how much list() accepts from a server. list() throws ResourceError for a catalog over one of these limits.
struct ListOptions {
  std::uint64_t max_entries = std::uint64_t{1} << 20;  ///< Also the limit of the number of batches in the catalog.
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  ///< Limit of the estimated memory of all names and schemas.
};

/// A location that a Flight server has named, and why a table wasn't read from there.
struct LocationTried {
  std::string location;  ///< Its URI, as the server has named it.
  std::string why;       ///< The reason, for people.
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

/// Consecutive rows of a table.
struct RowRange {
  std::uint64_t first = 0;  ///< From 0.
  std::uint64_t count = 0;  ///< Rows behind the table's end don't exist, and are left out.
};

/// Consecutive batches of a table, by their places in it.
struct BatchRange {
  std::uint32_t first = 0;  ///< From 0.
  std::uint32_t count = 0;  ///< Batches behind the table's end don't exist, and are left out.
};

/// Options of Client::get().
struct GetOptions {
  /// Top-level fields to keep, in this order; none: batches have rows alone. Absent: all.
  std::optional<std::vector<std::string>> columns{};
  /// The rows of a table to get. Only the batches with these rows are sent, where the server knows such requests; the
  /// first and the last are sliced here, without a copy. The rows are of one version of the table: if it is replaced
  /// meanwhile, get() asks again, a limited number of times.
  std::optional<RowRange> rows{};
  /// The batches of a table to get, in ascending order, without overlaps; at most 4096 ranges. Not together with
  /// `rows`. Client::batch_statistics() says how many rows each has, and of which version.
  std::optional<std::vector<BatchRange>> batches{};
  transport::WaitMode wait = transport::WaitMode::kAuto;  ///< How next() waits.
  TimeLimit timeout{};                                    ///< Of the wait for each batch.
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
  /// For Client::batch_statistics(): the columns of which they are wanted, instead of the data.
  std::optional<std::vector<std::string>> batch_statistics{};
  /// For other parts of this library: memory instead of that of `arena` (src/transport/body_memory.h).
  std::shared_ptr<transport::BodyMemory> memory{};
  WireObserver on_message{};  ///< The connection keeps the observer until its next stream.
  BatchObserver on_batch{};   ///< Called for each batch of the stream.
};

/// Options of Client::tensor() and Client::tensors().
struct TensorOptions {
  transport::WaitMode wait = transport::WaitMode::kAuto;  ///< How the call waits.
  TimeLimit timeout{};                                    ///< Of the wait for each tensor.
  /// As GetOptions::device: where tensors are wanted. Absent: the host. Not together with `out`, whose device counts.
  std::optional<device::Device> device{};
  /// As GetOptions::copy_on_write: the consumer may write to tensors on the host.
  bool copy_on_write = false;
  /// For Client::tensor() alone: the writable memory to receive the tensor in, of its type and shape, with any strides
  /// on the host, and in C order on a device. A body that is sent by value is received straight into it if its elements
  /// lie there as they are sent; otherwise one copy is made, which is over when the call returns. Null: none.
  ///
  /// It is checked as soon as the tensor's message is known, before its body is received. If the call throws, the
  /// memory may have been written to in part.
  const array::Tensor* out = nullptr;
  /// For other parts of this library: as GetOptions::memory.
  std::shared_ptr<transport::BodyMemory> memory{};
  /// Limits of what a server may send.
  std::uint64_t max_tensors = std::uint64_t{1} << 20;
  std::uint64_t max_path_bytes = std::uint64_t{64} << 20;  ///< Of the paths of all tensors.
  ipc::Limits limits{};                                    ///< Of the messages.
  /// If not null, the bytes that were copied here are added: to `out` or `device`, and of elements that weren't
  /// aligned.
  std::uint64_t* bytes_copied = nullptr;
  std::int64_t* version = nullptr;  ///< If not null, it is set to the version, as Reader::version().
  WireObserver on_message{};        ///< As GetOptions::on_message.
};

/// What Reader::try_next() has found.
struct Polled {
  /// The kinds of results.
  enum class State : std::uint8_t {
    kBatch,   ///< The next batch.
    kEnd,     ///< The end of the stream.
    kNotYet,  ///< Nothing: the next batch hasn't arrived.
    kFailed,  ///< An error, which ended the stream.
  };
  State state = State::kNotYet;               ///< Says which of the others is set.
  std::optional<array::RecordBatch> batch{};  ///< With kBatch alone.
  std::exception_ptr error{};                 ///< With kFailed alone: what next() would have thrown.

  /// Returns whether something was found: a batch, or the end of the stream. Throws `error`.
  bool arrived() const {
    if (error) std::rethrow_exception(error);
    return state != State::kNotYet;
  }
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
  /// The schema of the batches that next() returns, with GetOptions::columns alone. Valid as long as the reader.
  const std::shared_ptr<const array::Schema>& schema() const override;
  /// Waits for the next batch, and returns it; nullopt at the end. Throws as the class says.
  std::optional<array::RecordBatch> next() override;
  /// Does next() without waiting and without exceptions, for event loops. If the next batch hasn't arrived yet, call
  /// prepare_sleep(); if it returns true, wait until descriptor() is readable, and call awake(). Then try again.
  /// Coroutines have all of this in one call: session::next() of await.h.
  Polled try_next() noexcept;
  /// Returns false if something has arrived in the meantime: then don't sleep, call try_next() again at once. Throws
  /// ForkError.
  bool prepare_sleep();
  /// Ends what prepare_sleep() has begun: the server needs not wake this end any more. Does nothing after the end.
  /// Throws ForkError.
  void awake();
  /// The descriptor to wait for; -1 once the stream has ended. Get it again before each wait: with two connections it
  /// changes.
  int descriptor() const;
  /// The type of GetOptions::device.
  device::DeviceType device_type() const override;
  /// The bytes that were copied to bring batches to GetOptions::device, and to validate them in full on the host.
  std::uint64_t bytes_copied() const noexcept;
  /// The URI that the stream is read from.
  const std::string& location() const noexcept;
  /// The version of what is read, as CatalogEntry::version: the catalog may have had another one when it was read. -1:
  /// a live stream, a factory, or the server doesn't say.
  std::int64_t version() const noexcept;
  /// Of a client of a Flight server: the locations that were considered before, in the order of what they cost.
  const std::vector<LocationTried>& passed_over() const noexcept;
  /// Sets the hook that next() calls while it waits; see transport/options.h.
  void set_interrupt_hook(transport::InterruptHook hook);
  /// Ends the stream: later calls of next() throw ClosedError, unless the end was already reached. Batches that were
  /// returned before stay valid. Throws ForkError: a forked child can only destroy its parent's readers.
  void close();
  /// Returns true once the stream is over: at its end, after an error, or after close().
  bool closed() const noexcept;

  struct Impl;  ///< src/session
  /// For Client, which makes readers.
  explicit Reader(std::unique_ptr<Impl> impl);

 private:
  detail::ImplPtr<Impl> impl_;
};

/// A connection to a server. It has no thread of its own: all work is done on the calling threads. Thread-safe. Several
/// readers may be used at the same time: each has its own connection, and idle connections are reused.
class CROSSDOCK_EXPORT Client {
 public:
  /// Throws UriError, SchemeError, ConnectionError (no server is at the address, or it refuses), PermissionError,
  /// HandshakeError, TimeoutError, InterruptedError. The other functions connect again if need be, and throw the same
  /// then.
  ///
  /// "grpc://host:port" is a Flight server, Crossdock's or another. get() asks it where the table is, and reads it from
  /// the cheapest location that it can reach, at last by DoGet; see Reader::location() and ClientOptions::any_location.
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
  /// Asks for the server's statistics, which a relay answers with its own. An answer is bounded: it may leave entries
  /// out, and counts them. Throws PermissionError (ServerOptions::stats_for_all), UnsupportedError (the server doesn't
  /// know this request, or is a Flight server), InvalidDataError (the answer isn't one), and the errors of
  /// Reader::next().
  ServerStats server_stats(const transport::InterruptHook& interrupted = {});
  /// Requests the stream that is published as `name`. Returns once its schema has arrived. Throws NotFoundError (its
  /// message lists the names that exist), ConsumedError, InvalidArgumentError (tensors: tensor() or tensors() reads
  /// them), and the errors of Reader::next(). With GetOptions::rows or GetOptions::batches also UnsupportedError
  /// (`name` isn't a table, or, with batches, the server doesn't know such requests), InvalidArgumentError (batches
  /// that aren't as they must be), TimeoutError (the table is replaced again and again).
  std::unique_ptr<Reader> get(const std::string& name, const GetOptions& options = {},
                              const transport::InterruptHook& interrupted = {});
  /// Requests the batch statistics of a table: a table with one row for each of its batches, as
  /// docs/reference/protocol.md, "Batch statistics", describes it. Reader::version() is that of the table. Nothing is
  /// known of columns that don't exist, and of those whose type has no statistics. They are the server's word: a client
  /// that doesn't trust it checks the data. Returns null if the server doesn't know such requests. Throws
  /// UnsupportedError (`name` isn't a table), ResourceError (too many columns), and otherwise as get().
  std::unique_ptr<Reader> batch_statistics(const std::string& name, std::vector<std::string> columns,
                                           const TimeLimit& timeout = {},
                                           const transport::InterruptHook& interrupted = {});
  /// Returns the tensor that is published as `name`, in memory that is leased from the server, on a device or on the
  /// host: nothing is pending on it, and it may outlive the client and the server. It is read-only, unless
  /// TensorOptions::copy_on_write or TensorOptions::out says otherwise. Throws InvalidArgumentError (a table, or
  /// several tensors, are published under this name: the message says which call reads them; another type or shape than
  /// that of TensorOptions::out, or memory that is read-only), InvalidDataError (the server sends what isn't one
  /// tensor), UnsupportedTypeError (elements of an unknown type), NotFoundError, and the errors of Reader::next().
  array::Tensor tensor(const std::string& name, const TensorOptions& options = {},
                       const transport::InterruptHook& interrupted = {});
  /// Returns the tensors that are published under `name`, each with its path, in the order in which they were
  /// published. The paths all differ, and none is the beginning of another. Throws InvalidArgumentError (a table, or
  /// one tensor without a path, is published there), ResourceError (over a limit of `options`), and otherwise as
  /// tensor().
  std::vector<NamedTensor> tensors(const std::string& name, const TensorOptions& options = {},
                                   const transport::InterruptHook& interrupted = {});
  /// Sends a table to a Flight server, which publishes it under `name` (DoPut). Returns once it has. `replace`: whether
  /// it may take the place of another one, if the server allows that; a server that isn't Crossdock's decides itself.
  /// Bodies are sent from where they lie. ClientOptions::timeout limits the time for each batch. Throws
  /// UnsupportedError (the server takes no tables, or isn't a Flight server), InvalidArgumentError (the name is taken),
  /// the errors of the source, and those of list().
  void put(const std::string& name, array::BatchStream& source, bool replace = false,
           const exchange::WaitFunction& wait = exchange::wait_in_driver,
           const transport::InterruptHook& interrupted = {});
  /// Has a Flight server of Crossdock's fetch a table from this process, over shared memory or tcp, as fast as any
  /// consumer reads it: this process listens for it meanwhile. Returns once the server has published the table. Memory
  /// of an arena or a pool isn't copied here; a server at this machine copies it once, into memory of its own.
  /// `replace` and `wait` as of put(). Throws the server's error, the stream's, UnsupportedError (not such a server, or
  /// one at another machine to which this client came by TLS), ConnectionError (the server can't reach this process),
  /// and those of get().
  void offer(const std::string& name, std::unique_ptr<array::BatchStream> source, bool replace = false,
             const exchange::WaitFunction& wait = exchange::wait_in_driver,
             const transport::InterruptHook& interrupted = {});
  /// Closes the connections without a stream under way whose server has ended; they cost descriptors until then.
  /// Returns whether such a connection to a server that lives is left. Never blocks.
  bool drop_ended();
  /// Starts no new streams from now on. Readers that exist continue. Each connection stays open until its last batch is
  /// released.
  void close();

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::session
