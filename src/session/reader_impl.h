#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/session/client.h"
#include "dissociated/receiver.h"
#include "ipc/compression.h"
#include "ipc/dictionary_store.h"
#include "ipc/realign.h"
#include "session/client_connection.h"
#include "session/client_pool.h"

namespace crossdock::session {

/// A message with a body that was taken from the Receiver: a record batch or a dictionary.
struct BatchBody {
  ipc::MessageKind kind = ipc::MessageKind::kRecordBatch;
  std::uint32_t sequence = 0;
  std::shared_ptr<const array::Schema> schema;
  bool selected = false;  ///< `schema` has the selected columns only.
  ipc::BatchHeader header;
  std::vector<array::BufferView> views;
  std::shared_ptr<const void> owner;         ///< Of the memory of `views`.
  std::shared_ptr<device::Context> context;  ///< Of the device that the memory is on; null: the host.
};

/// A body that waits for its turn: it is being read, or comes after one that is.
struct QueuedBody : BatchBody {
  std::vector<transport::ReadPart> parts;  ///< Still to be begun: too many reads were under way.
  std::unique_ptr<transport::Reading> reading;
  std::shared_ptr<BatchLease> lease;  ///< Of the peer's memory, until all was read.
  std::uint64_t bytes = 0;            ///< That are read.
  // For the observer of batches; else empty:
  std::vector<std::byte> metadata;
  std::vector<std::byte> addresses;
  std::vector<dissociated::RemoteBuffer> remote;
};

/// Connects the protocol's Receiver with a transport's Connection, and makes batches from the received messages.
struct Reader::Impl {
  /// Requests the stream; returns once its schema has arrived. `data_from`: bodies arrive over a separate connection;
  /// null: one connection carries everything.
  Impl(std::shared_ptr<ClientPool> from, std::shared_ptr<ClientPool> data_from, const std::string& ticket,
       const GetOptions& given, transport::InterruptHook hook);
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
  std::string name;
  std::shared_ptr<ClientConnection> connection;       // null once the stream has ended
  std::shared_ptr<ClientConnection> data_connection;  // likewise; null with one connection
  dissociated::Receiver receiver;
  std::shared_ptr<const array::Schema> schema;
  std::shared_ptr<const array::Schema> delivered_schema;  // after the selection of columns
  std::vector<int> selected;
  bool look_inside = true;  // batches of `schema` hold offsets, indices or children, checked against each other
  ipc::DictionaryStore dictionaries;
  const dissociated::Receiver::Item* unfinished = nullptr;  // taken from the receiver, but its memory isn't announced
  const dissociated::Receiver::Item* ended = nullptr;       // the stream's end, taken while bodies are queued
  std::deque<QueuedBody> queued;                            // in the stream's order; empty where memory is mapped
  std::uint64_t queued_bytes = 0;
  std::shared_ptr<transport::BodyMemory> read_memory;  // for bodies that are read; made for the first
  bool may_wait = true;                                // whether the current call may wait
  std::int64_t region_deadline = 0;                    // for the announcement that is awaited; 0: none is awaited
  bool full = false;                                   // Validation::kFull
  std::uint64_t bytes_copied = 0;                      // to GetOptions::device
  bool over = false;
  std::int64_t hook_due_ns = 0;  // when check_deadline() next calls `interrupted`
  std::exception_ptr failure;    // the error that ended the stream early: every later call throws it again

  // Kept between batches to reuse their memory:
  BatchBody current;
  ipc::Decompressor decompressor;
  ipc::Realigner realigner;
  std::vector<dissociated::RemoteBuffer> remote;

 private:
  const dissociated::Receiver::Item* wait(std::int64_t deadline);
  const dissociated::Receiver::Item* look();
  void check_role(const ClientConnection& source, const transport::Incoming& message) const;
  void check_place(const transport::PeerRegion& region, std::size_t i);
  void check_deadline(std::int64_t deadline);
  const dissociated::Receiver::Item* next_item();
  void sleep(std::int64_t deadline);
  bool deliver(const dissociated::Receiver::Item& item, std::optional<array::RecordBatch>* out);
  bool deliver_queued(std::optional<array::RecordBatch>* out);
  void put_back();
  void finish(const dissociated::Receiver::Item& item);
  void begin_body(const dissociated::Receiver::Item& item);
  array::RecordBatch assemble(BatchBody* body);
  void store(BatchBody* body, std::optional<array::RecordBatch>* out);
  void put_in_place(const BatchBody& body, array::RecordBatch* batch) const;
  void bring_to_device(array::RecordBatch* batch);
  void show(const BatchBody& body, ByteSpan metadata, dissociated::BodyType type, ByteSpan bytes,
            std::span<const dissociated::RemoteBuffer> addresses);
  bool locate(const dissociated::Receiver::Item& item, std::shared_ptr<BatchLease>* unread);
  bool view_remote(BatchLease* lease, bool* mapped);
  std::shared_ptr<const transport::PeerRegion> region(std::uint64_t address);
  void view_packed(const dissociated::Receiver::Item& item);
  void enqueue(const dissociated::Receiver::Item& item, std::shared_ptr<BatchLease> unread);
  void plan_reads(QueuedBody* body);
  void begin_reads(QueuedBody* body);
};

}  // namespace crossdock::session
