#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/device/region_table.h"
#include "crossdock/dissociated/receiver.h"
#include "crossdock/ipc/compression.h"
#include "crossdock/ipc/dictionary_store.h"
#include "crossdock/ipc/realign.h"
#include "crossdock/session/client.h"
#include "session/client_connection.h"
#include "session/client_pool.h"

namespace crossdock::session {

/// Binds the protocol's Receiver to a transport's Connection, and makes batches of what comes.
struct Reader::Impl {
  /// Asks for the stream; returns when its schema is there. `data_from`: bodies come over a connection of their own;
  /// null: one carries all.
  Impl(std::shared_ptr<ClientPool> from, std::shared_ptr<ClientPool> data_from, const std::string& ticket,
       const GetOptions& given, transport::InterruptHook hook);
  ~Impl() { drop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool advance(bool waiting, std::optional<array::RecordBatch>* batch);
  /// The connection that brings what is due next.
  ClientConnection& due_from() noexcept;
  ClientConnection& bodies_from() noexcept { return data_connection ? *data_connection : *connection; }
  /// Whether nothing goes on before the announcement of a region has come.
  bool waits_for_region() const noexcept { return unfinished != nullptr; }
  /// The connection that an event loop is to watch.
  transport::Connection& watched() noexcept { return (waits_for_region() ? bodies_from() : due_from()).transport(); }
  void drop() noexcept;

  std::shared_ptr<ClientPool> pool;
  std::shared_ptr<ClientPool> data_pool;  // null: bodies come over `connection` as well
  GetOptions options;
  transport::InterruptHook interrupted;
  std::string name;
  std::shared_ptr<ClientConnection> connection;       // null once the stream is over
  std::shared_ptr<ClientConnection> data_connection;  // likewise; null with one connection
  dissociated::Receiver receiver;
  std::shared_ptr<const array::Schema> schema;
  std::shared_ptr<const array::Schema> delivered_schema;  // after the choice of columns
  std::vector<int> selected;
  bool look_inside = true;  // batches of `schema` hold offsets, indices or children, which must fit each other
  ipc::DictionaryStore dictionaries;
  const dissociated::Receiver::Item* unfinished = nullptr;  // taken from the receiver; its memory hadn't come
  bool may_wait = true;                                     // whether the call under way may
  std::int64_t region_deadline = 0;                         // of the announcement that is waited for; 0: none is
  bool full = false;                                        // Validation::kFull
  bool over = false;
  std::int64_t hook_due_ns = 0;  // when stay_patient() asks `interrupted` again
  std::exception_ptr failure;    // what ended it before its end: every later call throws it again

  // Kept between batches for their memory:
  ipc::BatchHeader header;
  ipc::Decompressor decompressor;
  ipc::Realigner realigner;
  std::vector<dissociated::RemoteBuffer> remote;
  std::vector<array::BufferView> views;

 private:
  const dissociated::Receiver::Item* wait(std::int64_t deadline);
  const dissociated::Receiver::Item* look();
  void check_place(const ClientConnection& source, const transport::Incoming& message) const;
  void stay_patient(std::int64_t deadline);
  void deliver(const dissociated::Receiver::Item& item, std::optional<array::RecordBatch>* out);
  void put_back();
  void finish(const dissociated::Receiver::Item& item);
  array::RecordBatch receive_batch(const dissociated::Receiver::Item& item,
                                   const std::shared_ptr<const array::Schema>& of);
  std::shared_ptr<const void> map_remote(ByteSpan body);
  void view_remote(BatchLease* lease);
  std::shared_ptr<const device::Region> region(std::uint16_t number);
  std::shared_ptr<const void> view_packed(const dissociated::Receiver::Item& item);
};

}  // namespace crossdock::session
