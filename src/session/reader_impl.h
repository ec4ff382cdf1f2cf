#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "dissociated/read_queue.h"
#include "dissociated/receiver.h"
#include "ipc/compression.h"
#include "ipc/dictionary_store.h"
#include "ipc/realign.h"
#include "session/client_connection.h"
#include "session/client_pool.h"
#include "session/out_tensor.h"
#include "session/queued_body.h"

namespace crossdock::session {

/// What a stream is read for.
enum class Content : std::uint8_t {
  kTable,    ///< Batches.
  kTensors,  ///< Each body becomes a batch of one column of bytes, `uint8`, and `tensor` says what they are.
};

/// A server that doesn't know requests with parameters.
class ParametersUnknown final : public UnsupportedError {
 public:
  using UnsupportedError::UnsupportedError;
};

/// Connects the protocol's Receiver with a transport's Connection, and makes batches from the received messages.
struct Reader::Impl {
  /// Requests the stream; returns once its schema has arrived. `data_from`: bodies arrive over a separate connection;
  /// null: one connection carries everything. `out`: of a tensor, the memory to receive it in; its device is
  /// `given.device`. Throws InvalidArgumentError if the stream has other content, ParametersUnknown.
  Impl(std::shared_ptr<ClientPool> from, std::shared_ptr<ClientPool> data_from, const std::string& ticket,
       const GetOptions& given, transport::InterruptHook hook, Content content = Content::kTable,
       const array::Tensor* out = nullptr);
  ~Impl() { drop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool advance(bool waiting, std::optional<array::RecordBatch>* batch);
  /// The connection over which the next message that is due arrives.
  ClientConnection& due_from() noexcept;
  ClientConnection& bodies_from() noexcept { return data_connection ? *data_connection : *connection; }
  /// Whether the reader waits for the announcement of a region.
  bool waits_for_region() const noexcept { return unfinished != nullptr; }
  /// The connection for which an event loop must wait.
  ClientConnection& watched() noexcept { return waits_for_region() || !queued.empty() ? bodies_from() : due_from(); }
  void drop() noexcept;

  std::shared_ptr<ClientPool> pool;
  std::shared_ptr<ClientPool> data_pool;  // null: bodies arrive over `connection` as well
  GetOptions options;
  transport::InterruptHook interrupted;
  std::string name;                             // for errors
  std::vector<LocationTried> tried{};           // Reader::passed_over()
  std::int64_t version = -1;                    // Reader::version()
  std::optional<std::uint64_t> rows_to_come{};  // with `trim`, where the server has said how many the batches have
  std::optional<RowRange> trim{};               // GetOptions::rows, counted from the first row that comes
  const Content content;
  std::shared_ptr<OutTensor> into;                    // where the tensor is wanted; null: anywhere
  ipc::TensorHeader tensor;                           // of the last batch that advance() has returned
  std::shared_ptr<ClientConnection> connection;       // null once the stream has ended
  std::shared_ptr<ClientConnection> data_connection;  // likewise; null with one connection
  dissociated::Receiver receiver;
  std::shared_ptr<const array::Schema> schema;
  std::shared_ptr<const array::Schema> delivered_schema;  // after the selection of columns
  std::vector<int> selected;
  bool look_inside = true;  // batches of `schema` hold offsets, indices or children, checked against each other
  ipc::DictionaryStore dictionaries;
  const dissociated::Receiver::Item* unfinished = nullptr;  // taken from the receiver, but its memory isn't announced
  const dissociated::Receiver::Item* ended = nullptr;       // End of Stream or an error, once it was taken
  dissociated::ReadQueue queued;                            // empty where memory is mapped
  std::shared_ptr<transport::BodyMemory> read_memory;       // for bodies that are read; made for the first
  bool may_wait = true;                                     // whether the current call may wait
  std::int64_t region_deadline = 0;                         // for the announcement that is awaited; 0: none is awaited
  bool full = false;                                        // Validation::kFull
  std::uint64_t bytes_copied = 0;                           // to GetOptions::device
  /// The dictionaries that were copied there last, by their ids: batches share them.
  struct CopiedDictionary {
    std::shared_ptr<const array::RecordBatch> from, there;
  };
  std::unordered_map<std::int64_t, CopiedDictionary> copied_dictionaries;
  bool over = false;
  std::int64_t hook_due_ns = 0;  // when check_deadline() next calls `interrupted`
  // The error that ended the stream early: every later call throws it again. It may wait for the bodies in the queue.
  std::exception_ptr failure;

  // GetOptions::copy_on_write: the private mappings of regions that don't change, for as long as batches hold them.
  std::vector<std::pair<const transport::PeerRegion*, std::weak_ptr<const transport::PeerRegion>>> written_regions;

  // Kept between batches to reuse their memory:
  BatchBody current;
  ipc::Decompressor decompressor;
  ipc::Realigner realigner;
  std::vector<dissociated::RemoteBuffer> remote;

 private:
  const dissociated::Receiver::Item* wait(std::int64_t deadline);
  const dissociated::Receiver::Item* look();
  void check_role(const ClientConnection& source, const transport::Incoming& message) const;
  void set_place(const std::shared_ptr<device::Context>& context, std::size_t i);
  void check_deadline(std::int64_t deadline);
  bool take(std::optional<array::RecordBatch>* out);
  void sleep(std::int64_t deadline);
  bool deliver(const dissociated::Receiver::Item& item, std::optional<array::RecordBatch>* out);
  void deliver_queued(QueuedBody* body, std::optional<array::RecordBatch>* out);
  void put_back();
  void finish(const dissociated::Receiver::Item& item);
  void begin_body(const dissociated::Receiver::Item& item);
  void assemble(BatchBody* body, std::optional<array::RecordBatch>* out);
  void store(BatchBody* body, std::optional<array::RecordBatch>* out);
  void put_in_place(const BatchBody& body, array::RecordBatch* batch);
  void bring_to_device(array::RecordBatch* batch);
  void bring_parts_to_host(std::int64_t dictionary_id, array::RecordBatch* delta);
  array::RecordBatch copied(const array::RecordBatch& from, const device::Device& to);
  std::shared_ptr<const array::RecordBatch> dictionary_on_device(std::int64_t id,
                                                                 const std::shared_ptr<const array::RecordBatch>& from);
  std::shared_ptr<transport::BodyMemory> memory_for_bodies();
  std::shared_ptr<transport::BodyMemory> memory_for_out(const array::Tensor& target);
  void check_content();
  [[noreturn]] void fail_content(const char* what) const;
  void begin_tensor(const ipc::Message& message);
  void request(const std::string& ticket);
  bool trim_rows(std::optional<array::RecordBatch>* batch);
  void make_bytes(BatchBody* body, std::optional<array::RecordBatch>* out);
  void expect_out(const ipc::TensorHeader& header);
  void check_full_on_host(const array::RecordBatch& batch);
  void show(const BatchBody& body, ByteSpan metadata, dissociated::BodyType type, ByteSpan bytes,
            std::span<const dissociated::RemoteBuffer> addresses);
  bool locate(const dissociated::Receiver::Item& item, std::shared_ptr<BatchLease>* unread);
  bool view_remote(std::uint64_t total, BatchLease* lease, std::uint64_t** held, bool* mapped);
  [[noreturn]] void fail_length(std::size_t i, std::uint64_t total) const;
  const transport::PeerRegion* enter_region(std::size_t i, BatchLease* lease);
  void allow_writes(BatchBody* body);
  std::shared_ptr<const transport::PeerRegion> writable(std::shared_ptr<const transport::PeerRegion> found);
  std::shared_ptr<const transport::PeerRegion> region(std::uint64_t address);
  void view_packed(const dissociated::Receiver::Item& item);
  void enqueue(const dissociated::Receiver::Item& item, std::shared_ptr<BatchLease> unread);
  void check_size_of_reads(std::uint64_t size) const;
  void plan_reads(QueuedBody* body);
};

}  // namespace crossdock::session
