#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/array/stream.h"
#include "crossdock/core/export.h"
#include "crossdock/device/region.h"
#include "crossdock/ipc/metadata.h"
#include "crossdock/session/observe.h"
#include "crossdock/session/transports.h"
#include "crossdock/transport/transport.h"

namespace crossdock::session {

struct ClientOptions {
  int timeout_ms = 10000;  ///< For connecting and for each answer that list() and get() wait for; negative: forever.
  std::shared_ptr<const transport::TransportRegistry> transports;  ///< Null: make_transports().
};

/// One line of a server's catalog.
struct CatalogEntry {
  std::string name;
  std::shared_ptr<const array::Schema> schema;  ///< Null for a factory, whose schema is known when it is called.
  std::int64_t rows = -1;                       ///< -1: not known.
  std::int64_t bytes = -1;
  std::string device;  ///< "cpu"
};

/// Limits what list() takes from a server. A catalog that passes a limit is refused, with ResourceError.
struct ListOptions {
  std::uint64_t max_entries = std::uint64_t{1} << 20;  ///< Batches of the catalog are limited to as many.
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  ///< Memory of the entries: names and schemas, estimated.
};

struct GetOptions {
  std::vector<std::string> columns;  ///< Top-level fields to keep, in this order; empty: all.
  bool all_columns = true;           ///< False: `columns` holds, even if empty.
  transport::WaitMode wait = transport::WaitMode::kAuto;
  int timeout_ms = -1;  ///< For each batch; negative: the stream may pause as long as it likes.
  /// How closely batches are looked at. Absent: in full, if they come from another user or another machine.
  std::optional<array::Validation> validation;
  ipc::Limits limits{};  ///< Of what its messages may ask of us.
  /// Where bodies that come by value are received, as over a network: publishing the batches then copies nothing. Not
  /// those that are compressed, nor what is shared, which stays where it is. Over the arena's `reserve`: ResourceError;
  /// once it was published: ArenaFrozenError. Don't publish it while this stream is being read.
  std::shared_ptr<device::Arena> arena{};
  WireObserver on_message{};  ///< Looks on; see observe.h. Kept by the connection until its next stream.
  BatchObserver on_batch{};
};

/// One stream. Batches outlive it, its client, and the server. One thread at a time; dropping it in mid-stream is fine.
/// Throws from next(): TruncatedStreamError, LeaseLimitError, FileChangedError, ProtocolError, InvalidDataError,
/// TimeoutError (may be called again), InterruptedError (likewise), RemoteError, ForkError, and what GetOptions::arena
/// does. What else it throws it throws again at every later call.
class CROSSDOCK_EXPORT Reader : public array::BatchStream {
 public:
  ~Reader() override;
  const std::shared_ptr<const array::Schema>& schema() const override;
  std::optional<array::RecordBatch> next() override;
  /// For event loops: next() without the waiting. True: `*batch` is the next one, or nothing at the end. False: it
  /// hasn't come; then `if (prepare_sleep())` wait until descriptor() is readable and call awake(), and try again.
  /// Throws as next(), but for TimeoutError and InterruptedError.
  bool try_next(std::optional<array::RecordBatch>* batch);
  /// False: something came meanwhile, try again at once.
  bool prepare_sleep();
  void awake();
  /// To be asked anew each time, with two connections it changes; -1 once the stream is over.
  int descriptor() const;
  /// Called while next() waits; see transport.h.
  void set_interrupt_hook(transport::InterruptHook hook);
  /// No more batches: next() throws ClosedError, unless the end was reached. Those handed out stay valid.
  void close();
  bool closed() const noexcept;

  struct Impl;  ///< src/session
  explicit Reader(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

/// A connection to a server. It owns no thread: the calling thread does the work. Thread-safe; several readers at once
/// are fine (each has a connection of its own; idle ones are used again).
class CROSSDOCK_EXPORT Client {
 public:
  /// Throws UriError, SchemeError, NotFoundError, ConnectionError, PermissionError, HandshakeError, TimeoutError,
  /// InterruptedError.
  explicit Client(const std::string& uri, ClientOptions options = {}, const transport::InterruptHook& interrupted = {});
  /// Metadata and bodies over a connection each, of one server or of two that publish the same under the same names;
  /// the schemes may differ. Live streams need one connection: they throw UnsupportedError from get().
  Client(const std::string& metadata_uri, const std::string& data_uri, ClientOptions options = {},
         const transport::InterruptHook& interrupted = {});
  ~Client();  ///< close()
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The server's catalog, read whole. Throws ResourceError (it passes a limit of `options`), InvalidDataError (it is
  /// no catalog, or a text in it isn't UTF-8: says which), and as Reader::next().
  std::vector<CatalogEntry> list(const ListOptions& options = {}, const transport::InterruptHook& interrupted = {});
  /// Returns when the schema is there. Throws NotFoundError that lists what there is, ConsumedError, and as
  /// Reader::next().
  std::unique_ptr<Reader> get(const std::string& name, const GetOptions& options = {},
                              const transport::InterruptHook& interrupted = {});
  /// Readers under way go on; nothing new starts. Each connection stays until its last batch is released.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::session
