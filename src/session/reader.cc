#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "dissociated/receiver.h"
#include "session/reader_impl.h"
#include "session/remote_error.h"

namespace crossdock::session {
namespace {

/// Receives bodies into an arena. The arena keeps all of them: no memory is reused.
class ArenaMemory final : public transport::BodyMemory {
 public:
  explicit ArenaMemory(std::shared_ptr<device::Arena> arena) noexcept : arena_(std::move(arena)) {}
  std::shared_ptr<std::byte> allocate(std::uint64_t size) override { return {arena_, arena_->allocate(size)}; }

 private:
  std::shared_ptr<device::Arena> arena_;
};

// How much later than the message that names it a region's announcement may arrive.
constexpr int kAnnouncementTimeoutMs = 5000;

// How often the interrupt hook is called while messages keep arriving: the hook may wait for the GIL.
constexpr std::int64_t kHookIntervalNs = 100'000'000;

std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::int64_t deadline_ns(int timeout_ms) {
  return timeout_ms < 0 ? 0 : now_ns() + static_cast<std::int64_t>(timeout_ms) * 1'000'000 + 1;
}

// Whether the metadata and the sizes of the buffers are all that must be checked. True for columns of fixed width,
// which contain no offsets or indices. Message::batch() and ipc::assemble() have made those checks.
bool needs_no_look_inside(const array::Schema& schema) {
  return std::ranges::all_of(schema.nodes(), [](const array::LayoutNode& node) {
    return node.n_children == 0 && node.dictionary_slot < 0 &&
           std::ranges::all_of(std::span(node.type.buffers, node.type.n_buffers), [](array::BufferKind kind) {
             return kind == array::BufferKind::kValidity || kind == array::BufferKind::kBits ||
                    kind == array::BufferKind::kFixed;
           });
  });
}

}  // namespace

Reader::Impl::Impl(std::shared_ptr<ClientPool> from, std::shared_ptr<ClientPool> data_from, const std::string& ticket,
                   const GetOptions& given, transport::InterruptHook hook)
    : pool(std::move(from)),
      data_pool(std::move(data_from)),
      options(given),
      interrupted(std::move(hook)),
      name(ticket),
      connection(pool->take(interrupted)),
      receiver({.limits = options.limits}),
      dictionaries(options.limits),
      decompressor(options.limits),
      realigner(options.limits) {
  if (data_pool) data_connection = data_pool->take(interrupted);
  bodies_from().transport().receive_into(options.arena ? std::make_shared<ArenaMemory>(options.arena) : nullptr);
  connection->set_observer(options.on_message);
  connection->request(as_bytes(ticket));
  if (data_connection) {
    data_connection->set_observer(options.on_message);
    data_connection->request(as_bytes(ticket));
  }
  const dissociated::Receiver::Item* item = wait(deadline_ns(pool->options().timeout_ms));
  if (item->kind != dissociated::Receiver::Item::Kind::kMessage) {
    finish(*item);
    throw ProtocolError("the stream \"" + name + "\" of " + pool->where() + " ended before its schema");
  }
  schema = item->message->schema();
  delivered_schema = schema;
  // Metadata from another user could otherwise make this process read its own memory as if it were offsets.
  const bool trusted = connection->transport().agreement().same_user && bodies_from().transport().agreement().same_user;
  full = options.validation.value_or(trusted ? array::Validation::kStructure : array::Validation::kFull) ==
         array::Validation::kFull;
  look_inside = !needs_no_look_inside(*schema);
  if (!options.all_columns) delivered_schema = array::select_fields(*schema, options.columns, &selected);
}

// The connection over which the next message that is due arrives. With two connections, the other one's messages are
// left unread, so that neither can run ahead further than the server's window allows.
ClientConnection& Reader::Impl::due_from() noexcept {
  return data_connection && receiver.due_has_metadata() ? *data_connection : *connection;
}

// With two connections, each carries only the messages of its role. An error may arrive over either.
void Reader::Impl::check_place(const ClientConnection& source, const transport::Incoming& message) const {
  const bool of_data = &source == data_connection.get();
  if (message.tagged ? of_data : !of_data) return;
  if (of_data && dissociated::read_prefix(message.bytes).type == dissociated::MessageType::kError) return;
  throw ProtocolError(source.where() + " sent " +
                      (of_data ? "metadata on the connection of bodies" : "a body on the connection of metadata") +
                      ", for the stream \"" + name + "\"");
}

// Returns the next item of the stream if it has arrived; else null.
const dissociated::Receiver::Item* Reader::Impl::look() {
  if (unfinished != nullptr) return std::exchange(unfinished, nullptr);
  while (true) {
    if (const dissociated::Receiver::Item* item = receiver.next()) return item;
    try {
      ClientConnection& source = due_from();
      std::optional<transport::Incoming> message = source.transport().receive();
      if (!message) break;
      source.received(*message);
      if (data_connection) check_place(source, *message);
      if (message->tagged) {
        receiver.on_tagged(message->tag, message->bytes, std::move(message->owner));
      } else {
        receiver.on_untagged(message->bytes);
      }
    } catch (const ConnectionError& error) {
      receiver.on_disconnected(error.what());
    }
  }
  bodies_from().flush();
  return nullptr;
}

// Returns the next item of the stream; never null. Throws TimeoutError, InterruptedError, and the errors that end the
// stream.
const dissociated::Receiver::Item* Reader::Impl::wait(std::int64_t deadline) {
  for (bool woken = false;; woken = true) {
    if (const dissociated::Receiver::Item* item = look()) return item;
    if (woken)
      check_deadline(deadline);  // the parts of a long message also end the wait, and may arrive without a pause
    ClientConnection& source = due_from();
    try {
      if (!transport::wait_readable(source.transport(), options.wait, deadline, interrupted)) {
        throw TimeoutError("timed out waiting for " + source.where() + " to send data of the stream \"" + name + "\"");
      }
    } catch (const ConnectionError& error) {
      receiver.on_disconnected(error.what());
    }
  }
}

// Puts the connection back into the pool for another stream.
void Reader::Impl::put_back() {
  connection->transport().receive_into(nullptr);  // an idle connection keeps no arena alive
  pool->put_back(std::move(connection));
}

// Handles an End of Stream or error message that was taken.
void Reader::Impl::finish(const dissociated::Receiver::Item& item) {
  over = true;
  if (item.kind == dissociated::Receiver::Item::Kind::kError) {
    const std::string text(as_text(item.metadata));
    // With two connections, the other one may still be in mid-stream.
    if (!data_connection) put_back();
    connection.reset();
    data_connection.reset();
    throw_remote(text, pool->where());
  }
  put_back();
  // Nothing tells when the connection for bodies is finished. Messages still on their way over it would be taken for
  // messages of the next stream.
  data_connection.reset();
}

// Sets `*out` to a batch of the schema `of`. Returns false, and leaves `*out` alone, if its memory hasn't arrived.
bool Reader::Impl::receive_batch(const dissociated::Receiver::Item& item,
                                 const std::shared_ptr<const array::Schema>& of,
                                 std::optional<array::RecordBatch>* out) {
  item.message->batch(*of, &header);
  views.resize(header.buffers.size());
  std::shared_ptr<const void> owner;
  if (item.body_type == dissociated::BodyType::kRemote) {
    if (header.codec != ipc::Codec::kNone) {
      throw ProtocolError(
          "the stream \"" + name +
          "\" sends a compressed body by address; only bodies that are sent by value may be compressed");
    }
    owner = map_remote(item.body);
    if (!owner) return false;
  } else if (header.codec != ipc::Codec::kNone) {
    owner = decompressor.decompress(*of, item.body, item.body_owner, name.c_str(), &header, &views);
  } else {
    owner = view_packed(item);
  }
  owner = realigner.realign(*of, header, std::move(owner), name.c_str(), &views);
  out->emplace(ipc::assemble(of, header, views, dictionaries.for_schema(*of), std::move(owner)));
  if (full) {
    array::check_full(**out, array::Dictionaries::kTrust);  // they were checked when they arrived
  } else if (look_inside || of != schema) {
    array::check_structure(**out);
  }
  if (options.on_batch) [[unlikely]] {
    options.on_batch({item.sequence, item.metadata, *schema, item.body_type, item.body,
                      item.body_type == dissociated::BodyType::kRemote
                          ? std::span<const dissociated::RemoteBuffer>(remote)
                          : std::span<const dissociated::RemoteBuffer>()});
  }
  return true;
}

// Handles a type 1 body: the address of each buffer. Reads no data of the buffers. Returns null if a region isn't
// announced yet; then no address was taken over.
std::shared_ptr<const void> Reader::Impl::map_remote(ByteSpan body) {
  dissociated::read_remote_body(body, &remote);
  if (remote.size() != header.buffers.size()) {
    throw ProtocolError("a body has " + std::to_string(remote.size()) + " buffers, but its metadata has " +
                        std::to_string(header.buffers.size()));
  }
  auto lease = std::make_shared<BatchLease>(data_connection ? data_connection : connection);
  try {
    if (!view_remote(lease.get())) return nullptr;
  } catch (const InterruptedError&) {
    throw;  // no address was taken over: next() can try again
  } catch (...) {
    lease->take_over(remote);  // frees the addresses later, even though something is wrong with them
    throw;
  }
  lease->take_over(remote);
  return lease;
}

// Looks up the memory of each buffer, and checks it. Returns false if a region isn't announced yet.
bool Reader::Impl::view_remote(BatchLease* lease) {
  const device::Region* region = nullptr;
  std::int32_t last_number = -1;
  for (std::size_t i = 0; i < remote.size(); ++i) {
    const dissociated::RemoteBuffer& buffer = remote[i];
    if (buffer.length != static_cast<std::uint64_t>(header.buffers[i].length)) {
      throw ProtocolError("buffer " + std::to_string(i) + " of a body has " + std::to_string(buffer.length) +
                          " bytes, but its metadata says " + std::to_string(header.buffers[i].length));
    }
    if (buffer.length == 0) {
      views[i] = {};
      continue;
    }
    const std::uint16_t number = device::address_region(buffer.address);
    if (number != last_number) {
      std::shared_ptr<const device::Region> found = this->region(number);
      if (!found) return false;
      region = &lease->add(std::move(found));
      last_number = number;
    }
    const std::uint64_t offset = device::address_offset(buffer.address);
    if (offset > region->size() || buffer.length > region->size() - offset) {
      throw ProtocolError("buffer " + std::to_string(i) +
                          " of a body is outside its region: " + std::to_string(buffer.length) + " bytes at " +
                          std::to_string(offset) + " of " + std::to_string(region->size()));
    }
    views[i] = {region->data() + offset, header.buffers[i].length};
  }
  return true;
}

// Returns the region with this number. If its announcement is late, waits for it, or, in a call that must not wait,
// returns null until a time limit.
std::shared_ptr<const device::Region> Reader::Impl::region(std::uint16_t number) {
  transport::Connection& from = bodies_from().transport();
  if (may_wait) return from.region(number, kAnnouncementTimeoutMs, interrupted);
  if (!from.knows_region(number)) {
    if (region_deadline == 0) region_deadline = deadline_ns(kAnnouncementTimeoutMs);
    if (deadline_ns(0) < region_deadline) return nullptr;
  }
  region_deadline = 0;
  return from.region(number, 0);
}

// Handles a type 0 body, which contains the bytes themselves. A body without an owner will be overwritten by the
// transport.
std::shared_ptr<const void> Reader::Impl::view_packed(const dissociated::Receiver::Item& item) {
  std::shared_ptr<const void> owner = item.body_owner;
  const std::byte* base = item.body.data();
  if (!owner) {
    constexpr std::align_val_t kAlignment{64};
    auto* memory = static_cast<std::byte*>(::operator new(std::max<std::size_t>(item.body.size(), 1), kAlignment));
    owner = std::shared_ptr<const void>(
        memory, [](const void* given) { ::operator delete(const_cast<void*>(given), kAlignment); });
    if (!item.body.empty()) std::memcpy(memory, base, item.body.size());
    base = memory;
  }
  for (std::size_t i = 0; i < header.buffers.size(); ++i) {
    const ipc::BufferRange& range = header.buffers[i];
    views[i] = range.length == 0 ? array::BufferView{} : array::BufferView{base + range.offset, range.length};
  }
  return owner;
}

// Decodes a message: stores a dictionary, or sets `*out` to a batch. Returns false if its memory hasn't arrived.
bool Reader::Impl::deliver(const dissociated::Receiver::Item& item, std::optional<array::RecordBatch>* out) {
  switch (item.message_kind) {
    case ipc::MessageKind::kRecordBatch: {
      if (!receive_batch(item, schema, out)) return false;
      if (!options.all_columns) *out = array::select_columns(**out, delivered_schema, selected);
      return true;
    }
    case ipc::MessageKind::kDictionaryBatch: {
      const std::int64_t id = item.message->dictionary_id();
      const auto values = schema->find_dictionary(id);
      if (!values) {
        throw InvalidDataError("the stream \"" + name + "\" sends a dictionary with the id " + std::to_string(id) +
                               ", which no field of its schema uses");
      }
      std::optional<array::RecordBatch> batch;
      if (!receive_batch(item, values, &batch)) return false;
      dictionaries.put(id, *std::move(batch), header.is_delta);
      return true;
    }
    default:
      throw UnsupportedTypeError("the stream \"" + name +
                                 "\" sends a message that is neither a record batch nor a dictionary");
  }
}

// Called while messages arrive that are no batch: checks the clock and calls the hook without sleeping. Throws the
// errors of wait(); an interrupt takes precedence over the deadline.
void Reader::Impl::check_deadline(std::int64_t deadline) {
  const std::int64_t now = now_ns();
  const bool late = deadline != 0 && now > deadline;
  if (interrupted && (late || now >= hook_due_ns)) {
    hook_due_ns = now + kHookIntervalNs;
    if (interrupted()) throw InterruptedError("reading the stream \"" + name + "\" was interrupted");
  }
  if (late) {
    throw TimeoutError("timed out waiting for " + pool->where() + " to send a whole batch of the stream \"" + name +
                       "\"; other messages or a part of it arrived");
  }
}

// Returns true if `*batch` was set to the next batch, or to nullopt at the end. Returns false if it hasn't arrived and
// `waiting` is false.
bool Reader::Impl::advance(bool waiting, std::optional<array::RecordBatch>* batch) {
  batch->reset();
  if (failure) std::rethrow_exception(failure);  // a truncated stream must never look like one that ended
  if (over) return true;
  pool->made_in().check("this Reader");
  may_wait = waiting;
  const std::int64_t deadline = may_wait ? deadline_ns(options.timeout_ms) : 0;
  const dissociated::Receiver::Item* item = nullptr;
  try {
    while (true) {
      item = nullptr;
      item = may_wait ? wait(deadline) : look();
      if (item == nullptr) return false;
      if (item->kind != dissociated::Receiver::Item::Kind::kMessage) {
        finish(*item);
        return true;
      }
      if (!deliver(*item, batch)) {
        unfinished = item;
        return false;
      }
      if (*batch) return true;
      item = nullptr;
      if (may_wait) check_deadline(deadline);  // an endless series of dictionaries must not block the caller
    }
  } catch (const TimeoutError&) {
    throw;  // may be called again
  } catch (const InterruptedError&) {
    unfinished = item;  // its memory hasn't arrived
    throw;
  } catch (...) {
    batch->reset();
    failure = std::current_exception();
    drop();
    throw;
  }
}

// Gives up connections that can't be used for another stream. Each one is closed once the last batch received over it
// is released.
void Reader::Impl::drop() noexcept {
  over = true;
  if (connection) connection->cancel();
  if (data_connection) data_connection->cancel();
  connection.reset();
  data_connection.reset();
}

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::~Reader() = default;

const std::shared_ptr<const array::Schema>& Reader::schema() const { return impl_->delivered_schema; }
std::optional<array::RecordBatch> Reader::next() {
  std::optional<array::RecordBatch> batch;
  impl_->advance(true, &batch);
  return batch;
}
bool Reader::try_next(std::optional<array::RecordBatch>* batch) { return impl_->advance(false, batch); }
bool Reader::prepare_sleep() {
  if (impl_->over) return false;
  try {
    // A region makes the descriptor readable even without prepare_sleep(). And prepare_sleep() would refuse to sleep
    // because of messages that have already arrived.
    if (impl_->waits_for_region()) return true;
    return impl_->due_from().transport().prepare_sleep();
  } catch (const ConnectionError&) {
    return false;  // try_next() throws it
  }
}
void Reader::awake() {
  if (!impl_->over) impl_->watched().wake();
}
int Reader::descriptor() const { return impl_->over ? -1 : impl_->watched().descriptor(); }
void Reader::set_interrupt_hook(transport::InterruptHook hook) { impl_->interrupted = std::move(hook); }
void Reader::close() {
  if (!impl_->over) impl_->failure = std::make_exception_ptr(ClosedError("this Reader was closed"));
  impl_->drop();
}
bool Reader::closed() const noexcept { return impl_->over; }

}  // namespace crossdock::session
