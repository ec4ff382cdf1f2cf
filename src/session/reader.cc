#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "array/sizes.h"
#include "array/slice.h"
#include "core/bytes.h"
#include "core/clock.h"
#include "core/milliseconds.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "crossdock/exchange/batch.h"
#include "device/private_memory.h"
#include "dissociated/receiver.h"
#include "dissociated/request.h"
#include "ipc/select.h"
#include "session/device_bodies.h"
#include "session/reader_impl.h"
#include "session/remote_error.h"
#include "session/source_batch.h"
#include "session/table_version.h"
#include "session/tensor_format.h"

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

// Returns the memory that the consumer wants bodies to be received in; null if it doesn't say.
std::shared_ptr<transport::BodyMemory> memory_given(const GetOptions& options) {
  if (options.memory) return options.memory;
  return options.arena ? std::make_shared<ArenaMemory>(options.arena) : nullptr;
}

// How much later than the message that names it a region's announcement may arrive.
constexpr std::chrono::milliseconds kAnnouncementTimeout{5000};

// While messages keep arriving, too, the interrupt hook isn't called more often: it may wait for the GIL.
constexpr std::int64_t kHookIntervalNs = kHookInterval / std::chrono::nanoseconds(1);

// Returns 0 for no limit.
std::int64_t deadline_ns(const TimeLimit& timeout) {
  return timeout ? now_ns() + static_cast<std::int64_t>(to_ms(*timeout)) * 1'000'000 + 1 : 0;
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

/// Returns the schema of a batch of one column of bytes.
std::shared_ptr<const array::Schema> bytes_schema() {
  static const auto schema = [] {
    array::Field bytes;
    bytes.type.id = array::TypeId::kUInt8;
    bytes.nullable = false;
    return std::make_shared<const array::Schema>(std::vector{std::move(bytes)});
  }();
  return schema;
}

/// Converts to what a function returns: std::optional::emplace() then makes the value in its place, and moves nothing.
template <typename F>
struct MadeBy {
  F make;
  operator std::invoke_result_t<F>() const { return make(); }
};
template <typename F>
MadeBy(F) -> MadeBy<F>;

}  // namespace

Reader::Impl::Impl(std::shared_ptr<ClientPool> from, std::shared_ptr<ClientPool> data_from, const std::string& ticket,
                   const GetOptions& given, transport::InterruptHook hook, Content wanted, const array::Tensor* target)
    : pool(std::move(from)),
      data_pool(std::move(data_from)),
      options(given),
      interrupted(std::move(hook)),
      name(excerpt(ticket)),
      content(wanted),
      connection(pool->take(interrupted)),
      receiver({.limits = options.limits}),
      dictionaries(options.limits),
      queued(options.read_ahead),
      decompressor(options.limits),
      realigner(options.limits) {
  if (data_pool) data_connection = data_pool->take(interrupted);
  bodies_from().transport().receive_into(target != nullptr ? memory_for_out(*target) : memory_for_bodies());
  request(ticket);
  const dissociated::Receiver::Item* item = wait(deadline_ns(pool->options().timeout));
  if (item->kind != dissociated::Receiver::Item::Kind::kMessage) {
    finish(*item);
    throw ProtocolError("the stream \"" + name + "\" of " + pool->where() + " ended before its schema");
  }
  schema = item->message->schema();
  version = version_in(item->message->custom_metadata());
  delivered_schema = schema;
  check_content();
  // Metadata from another user could otherwise make this process read its own memory as if it were offsets.
  const bool trusted = connection->transport().agreement().same_user && bodies_from().transport().agreement().same_user;
  full = options.validation.value_or(trusted ? array::Validation::kStructure : array::Validation::kFull) ==
         array::Validation::kFull;
  if (content == Content::kTensors) full = false;  // bytes have nothing inside that could lead a reader astray
  look_inside = !needs_no_look_inside(*schema);
  if (options.columns) delivered_schema = array::select_fields(*schema, *options.columns, &selected);
}

// Sends the request, by both connections if there are two.
void Reader::Impl::request(const std::string& ticket) {
  dissociated::Request request{.ticket = ticket, .batch_statistics = options.batch_statistics};
  if (options.batches) {
    request.batches.emplace();
    for (const BatchRange& range : *options.batches) request.batches->push_back({range.first, range.count});
  }
  const std::vector<std::byte> bytes = dissociated::encode_request(request);
  for (const auto& to : {connection, data_connection}) {
    if (!to || !request.has_parameters() || to->transport().agreement().parameters) continue;
    throw ParametersUnknown("the server at " + to->where() + " doesn't know requests for parts of a table");
  }
  for (const auto& to : {connection, data_connection}) {
    if (!to) continue;
    to->set_observer(options.on_message);
    to->request(bytes);
  }
}

// Cuts a batch to the rows that are wanted. Returns false if there are none in it.
bool Reader::Impl::trim_rows(std::optional<array::RecordBatch>* batch) {
  const auto rows = static_cast<std::uint64_t>((*batch)->num_rows);
  if (rows_to_come) {
    if (rows > *rows_to_come) {
      throw InvalidDataError("the server sent a batch of " + std::to_string(rows) +
                             " rows where its batch statistics have " + std::to_string(*rows_to_come));
    }
    *rows_to_come -= rows;
  }
  if (trim->first >= rows) {
    trim->first -= rows;
    batch->reset();
    return false;
  }
  const std::uint64_t count = std::min(trim->count, rows - trim->first);
  if (count < rows) {
    *batch =
        array::slice_rows(*std::move(*batch), static_cast<std::int64_t>(trim->first), static_cast<std::int64_t>(count));
  }
  trim->first = 0;
  trim->count -= count;
  return true;
}

// Returns the memory for bodies that arrive by value; null: the connection's own.
std::shared_ptr<transport::BodyMemory> Reader::Impl::memory_for_bodies() {
  if (auto given = memory_given(options)) return given;
  const transport::Connection& from = bodies_from().transport();
  // Bodies that are read go through the host, and dictionaries must be where their batches are. Observers read what
  // passes.
  const bool may_read = options.columns.has_value() || from.agreement().prefers_reads;
  const bool observed = options.on_message || options.on_batch;
  if (!options.device || device::host_reaches(options.device->type) || may_read || observed) return nullptr;
  if (!from.reaches(*options.device)) return nullptr;
  return std::make_shared<DeviceBodies>(pool->options().runtime->drivers()->context(*options.device));
}

// Returns the memory for bodies of a stream of one tensor, which is wanted in `target`.
std::shared_ptr<transport::BodyMemory> Reader::Impl::memory_for_out(const array::Tensor& target) {
  std::shared_ptr<transport::BodyMemory> others = memory_for_bodies();
  const bool on_device = others && others->device() != device::Device{};
  auto context = on_device ? pool->options().runtime->drivers()->context(*options.device) : nullptr;
  if (!others) others = transport::make_body_pool();
  into = std::make_shared<OutTensor>(target, std::move(others), std::move(context));
  if (!on_device) read_memory = into;  // bodies that are read go to the host
  return into;
}

// A schema says that its stream has tensors, if the server is one of Crossdock's; then a wrong call fails at once.
void Reader::Impl::check_content() {
  const auto tensors = tensor_content(*schema);
  if (content == Content::kTable ? !tensors : tensors || schema->fields().empty()) return;
  drop();
  fail_content(tensors ? (tensors->single ? "a tensor: tensor() reads it" : "several tensors: tensors() reads them")
                       : "a table: get() reads it");
}

void Reader::Impl::fail_content(const char* what) const {
  throw InvalidArgumentError("\"" + name + "\" of " + pool->where() + " is " + what);
}

// The connection over which the next message that is due arrives. With two connections, the other one's messages are
// left unread, so that neither can run ahead further than the server's window allows.
ClientConnection& Reader::Impl::due_from() noexcept {
  return data_connection && receiver.due_has_metadata() ? *data_connection : *connection;
}

// With two connections, each carries only the messages of its role. An error may arrive over either.
void Reader::Impl::check_role(const ClientConnection& source, const transport::Incoming& message) const {
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
    if (into) [[unlikely]] {
      const ipc::Message* const due = receiver.due_message();  // its body comes next
      if (due != nullptr && due->kind() == ipc::MessageKind::kTensor) expect_out(due->tensor());
    }
    try {
      ClientConnection& source = due_from();
      std::optional<transport::Incoming> message = source.transport().receive();
      if (!message) break;
      source.received(*message);
      if (data_connection) check_role(source, *message);
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

// Returns the next item of the stream; never null. Only before the first body. Throws the errors of sleep() and those
// that end the stream.
const dissociated::Receiver::Item* Reader::Impl::wait(std::int64_t deadline) {
  for (bool woken = false;; woken = true) {
    if (const dissociated::Receiver::Item* item = look()) return item;
    if (woken)
      check_deadline(deadline);  // the parts of a long message also end the wait, and may arrive without a pause
    sleep(deadline);
  }
}

// Waits until something may have arrived. Throws TimeoutError, InterruptedError.
void Reader::Impl::sleep(std::int64_t deadline) {
  ClientConnection& source = watched();
  try {
    if (!transport::wait_readable(source.transport(), options.wait, deadline, interrupted)) {
      throw TimeoutError("timed out waiting for " + source.where() + " to send data of the stream \"" + name + "\"");
    }
  } catch (const ConnectionError& error) {
    // Else an item would become invalid that is still used; region() and the reads meet the error as well.
    if (unfinished == nullptr && ended == nullptr) receiver.on_disconnected(error.what());
  }
}

// Puts the connection back into the pool for another stream.
void Reader::Impl::put_back() {
  connection->transport().receive_into(nullptr);  // an idle connection keeps no arena alive
  connection->transport().wait_for_reads_only(false);
  pool->put_back(std::move(connection));
}

// Handles an End of Stream or error message that was taken.
void Reader::Impl::finish(const dissociated::Receiver::Item& item) {
  over = true;
  if (item.kind == dissociated::Receiver::Item::Kind::kError) {
    const std::string text(as_text(item.metadata));
    // With two connections, the other one may still be in mid-stream.
    if (queued.drop() && !data_connection) put_back();
    connection.reset();
    data_connection.reset();
    throw_remote(text, pool->where());
  }
  put_back();
  // Nothing tells when the connection for bodies is finished. Messages still on their way over it would be taken for
  // messages of the next stream.
  data_connection.reset();
}

// Reads the header of a message with a body into `current`, unless it is there from the message before.
inline void Reader::Impl::begin_body(const dissociated::Receiver::Item& item) {
  current.kind = item.message_kind;
  current.sequence = item.sequence;
  current.selected = false;
  current.received = false;
  current.context = nullptr;
  if (item.repeats && current.header_is_read) return;
  current.header_is_read = false;
  if ((item.message_kind == ipc::MessageKind::kTensor) != (content == Content::kTensors)) {
    fail_content(content == Content::kTensors ? "a table: get() reads it" : "a tensor: tensor() reads it");
  }
  switch (item.message_kind) {
    case ipc::MessageKind::kTensor: begin_tensor(*item.message); return;
    case ipc::MessageKind::kRecordBatch:
      if (current.schema != schema) current.schema = schema;
      break;
    case ipc::MessageKind::kDictionaryBatch: {
      const std::int64_t id = item.message->dictionary_id();
      current.schema = schema->find_dictionary(id);
      if (!current.schema) {
        throw InvalidDataError("the stream \"" + name + "\" sends a dictionary with the id " + std::to_string(id) +
                               ", which no field of its schema uses");
      }
      break;
    }
    default:
      throw UnsupportedTypeError("the stream \"" + name +
                                 "\" sends a message that is neither a record batch nor a dictionary");
  }
  item.message->batch(*current.schema, &current.header);
  current.header_is_read = current.header.codec == ipc::Codec::kNone;  // decompressing changes it
}

// Reads the header of a tensor: to the reader its body is one buffer of bytes.
void Reader::Impl::begin_tensor(const ipc::Message& message) {
  current.tensor = message.tensor();
  if (into) expect_out(current.tensor);
  current.schema = bytes_schema();
  current.header = {};
  current.header.buffers = {current.tensor.data};
  current.header.body_length = current.tensor.body_length;
  current.header.buffer_bytes = current.tensor.data.length;
  current.header_is_read = true;
}

void Reader::Impl::expect_out(const ipc::TensorHeader& header) { into->expect(header, "\"" + name + "\""); }

// Makes a batch of one column of a tensor's bytes.
void Reader::Impl::make_bytes(BatchBody* body, std::optional<array::RecordBatch>* out) {
  if (options.copy_on_write && !body->context) allow_writes(body);
  array::RecordBatch& batch = out->emplace();
  batch.schema = body->schema;
  batch.num_rows = body->tensor.data.length;
  batch.nodes = {{.length = batch.num_rows, .null_count = 0, .offset = 0}};
  batch.buffers = {{}, body->views.front()};
  batch.owner = std::move(body->owner);
  put_in_place(*body, &batch);
  tensor = body->tensor;
}

// Decodes a message: stores a dictionary, or sets `*out` to a batch, unless the body must wait for its turn. Returns
// false if the region of its memory isn't announced yet.
inline bool Reader::Impl::deliver(const dissociated::Receiver::Item& item, std::optional<array::RecordBatch>* out) {
  begin_body(item);
  std::shared_ptr<BatchLease> unread;
  if (!locate(item, &unread)) return false;
  if (unread || !queued.empty()) [[unlikely]] {
    enqueue(item, std::move(unread));
    return true;
  }
  store(&current, out);
  if (options.on_batch) [[unlikely]] {
    const bool by_address = item.body_type == dissociated::BodyType::kRemote;
    show(
        current, item.metadata, item.body_type, item.body,
        by_address ? std::span<const dissociated::RemoteBuffer>(remote) : std::span<const dissociated::RemoteBuffer>());
  }
  return true;
}

// Like deliver(), for a body whose turn has come.
void Reader::Impl::deliver_queued(QueuedBody* body, std::optional<array::RecordBatch>* out) {
  store(&body->batch, out);
  if (!options.on_batch) return;
  show(body->batch, body->metadata, body->type, body->bytes, body->remote);
}

// Makes a batch of a body whose memory is there: stores a dictionary, or sets `*out`.
inline void Reader::Impl::store(BatchBody* body, std::optional<array::RecordBatch>* out) {
  if (content == Content::kTensors) [[unlikely]] {
    make_bytes(body, out);
  } else {
    assemble(body, out);
  }
  if (body->kind == ipc::MessageKind::kDictionaryBatch) {
    if (body->header.is_delta) bring_parts_to_host(body->header.dictionary_id, &**out);
    dictionaries.put(body->header.dictionary_id, *std::exchange(*out, std::nullopt), body->header.is_delta);
    return;
  }
  if (options.columns.has_value() && !body->selected) *out = array::select_columns(**out, delivered_schema, selected);
  if (trim && !trim_rows(out)) [[unlikely]]
    return;
  if (options.device && !into) [[unlikely]]
    bring_to_device(&**out);
}

inline void Reader::Impl::assemble(BatchBody* body, std::optional<array::RecordBatch>* out) {
  const array::Schema& of = *body->schema;
  if (!body->context) [[likely]]
    body->owner = realigner.realign(of, body->header, std::move(body->owner), name.c_str(), &body->views);
  if (options.copy_on_write && !body->context) [[unlikely]]
    allow_writes(body);
  array::RecordBatch& batch = out->emplace(MadeBy{[&] {
    return ipc::assemble(body->schema, body->header, std::move(body->views), dictionaries.for_schema(of),
                         std::move(body->owner));
  }});
  if (body->context || !batch.dictionaries.empty()) [[unlikely]]
    put_in_place(*body, &batch);
  if (full && batch.device == device::Device{}) [[likely]] {
    array::check_full(batch, array::Dictionaries::kTrust);  // they were checked when they arrived
  } else if (full) {
    check_full_on_host(batch);
  } else if (look_inside || body->kind == ipc::MessageKind::kDictionaryBatch) {
    array::check_structure(batch);
  }
}

// Lists the memory of a body that came by value, which is the consumer's alone. Mapped memory is listed already.
void Reader::Impl::allow_writes(BatchBody* body) {
  struct Listed {
    std::shared_ptr<const void> owner;
    device::PrivateMemory memory;  // goes first
  };
  auto listed = std::make_shared<Listed>();
  for (const array::BufferView& view : body->views)
    listed->memory.add(view.data, static_cast<std::uint64_t>(view.size));
  listed->owner = std::move(body->owner);
  body->owner = std::move(listed);
}

// Validates a batch in memory of a device, by a copy of it on the host. Columns of fixed width hold nothing that could
// lead their readers astray, and are copied only if the caller has asked for the check.
void Reader::Impl::check_full_on_host(const array::RecordBatch& batch) {
  if (!look_inside && !options.validation) return;
  array::RecordBatch here =
      exchange::transfer(without_dictionaries(batch), {}, {}, nullptr, *pool->options().runtime->drivers());
  bytes_copied += static_cast<std::uint64_t>(here.nbytes());
  here.dictionaries = batch.dictionaries;  // these were checked when they arrived
  array::check_full(here, array::Dictionaries::kTrust);
}

// Says where a batch is. Nothing is pending on memory of a device: the server has waited, or it was received.
void Reader::Impl::put_in_place(const BatchBody& body, array::RecordBatch* batch) {
  const auto is_empty = [](const array::BufferView& view) { return view.size == 0; };
  if (body.context) {
    batch->device = body.context->device();
  } else if (std::ranges::all_of(batch->buffers, is_empty)) {  // without bytes it is where its dictionaries are
    for (const auto& dictionary : batch->dictionaries) {
      if (dictionary && dictionary->nbytes() > 0) batch->device = dictionary->device;
      if (batch->device != device::Device{}) break;
    }
  }
  for (std::size_t i = 0; i < batch->dictionaries.size(); ++i) {
    std::shared_ptr<const array::RecordBatch>& dictionary = batch->dictionaries[i];
    if (!dictionary || dictionary->device == batch->device) [[likely]]
      continue;
    if (dictionary->nbytes() == 0) {  // without bytes it can be anywhere
      auto moved = std::make_shared<array::RecordBatch>(*dictionary);
      for (array::RecordBatch* inner : array::own_dictionaries(moved.get())) inner->device = batch->device;
      moved->device = batch->device;
      dictionary = std::move(moved);
      continue;
    }
    if (options.device != batch->device || dictionary->device != device::Device{}) {
      throw ProtocolError("a batch of the stream \"" + name + "\" is on " + device::to_string(batch->device) +
                          ", but its dictionary is on " + device::to_string(dictionary->device));
    }
    dictionary = dictionary_on_device(batch->schema->dictionaries()[i].id, dictionary);
  }
  if (batch->device == device::Device{}) [[likely]]
    return;
  if (full && body.context && !body.received) {
    throw UnsupportedError(
        "the stream \"" + name + "\" is in memory of " + device::to_string(batch->device) +
        ", which can't be validated in full, as " +
        (options.validation ? "was asked for" : "metadata of another user or machine is by default") +
        ": choose the validation of the structure, or get the stream on the host");
  }
  for (const array::BufferView& view : batch->buffers) {
    if (reinterpret_cast<std::uintptr_t>(view.data) % kBufferAlignment == 0) continue;
    throw ProtocolError("a buffer of the stream \"" + name + "\" on " + device::to_string(batch->device) +
                        " isn't aligned to 64 bytes");
  }
  batch->kind = device::MemoryKind::kDevice;
  batch->read_only = true;
}

void Reader::Impl::bring_to_device(array::RecordBatch* batch) {
  if (batch->device == *options.device) return;
  array::RecordBatch there = copied(without_dictionaries(*batch), *options.device);
  for (std::size_t i = 0; i < batch->dictionaries.size(); ++i) {
    if (!batch->dictionaries[i]) continue;
    there.dictionaries[i] = dictionary_on_device(batch->schema->dictionaries()[i].id, batch->dictionaries[i]);
  }
  *batch = std::move(there);
}

// A dictionary is put together from its parts in memory of the host.
void Reader::Impl::bring_parts_to_host(std::int64_t dictionary_id, array::RecordBatch* delta) {
  std::shared_ptr<const array::RecordBatch>* const base = dictionaries.values_of(dictionary_id);
  if (base != nullptr && (*base)->device != device::Device{}) {
    *base = std::make_shared<const array::RecordBatch>(copied(**base, {}));
  }
  if (delta->device != device::Device{}) *delta = copied(*delta, {});
}

array::RecordBatch Reader::Impl::copied(const array::RecordBatch& from, const device::Device& to) {
  const device::DriverRegistry& drivers = *pool->options().runtime->drivers();
  array::RecordBatch there = exchange::transfer(from, to, {}, nullptr, drivers);
  bytes_copied += static_cast<std::uint64_t>(there.nbytes());
  for (const auto& inner : there.dictionaries) bytes_copied += inner ? static_cast<std::uint64_t>(inner->nbytes()) : 0;
  return there;
}

// Returns the dictionary in memory of GetOptions::device, copied once. The copy is over.
std::shared_ptr<const array::RecordBatch> Reader::Impl::dictionary_on_device(
    std::int64_t id, const std::shared_ptr<const array::RecordBatch>& from) {
  CopiedDictionary& known = copied_dictionaries[id];
  if (known.from != from) {
    known.there = std::make_shared<const array::RecordBatch>(copied(*from, *options.device));
    known.from = from;
  }
  return known.there;
}

void Reader::Impl::show(const BatchBody& body, ByteSpan metadata, dissociated::BodyType type, ByteSpan bytes,
                        std::span<const dissociated::RemoteBuffer> addresses) {
  options.on_batch({body.sequence, metadata, *schema, type, bytes, addresses});
}

// Finds the memory of the body in `current`: sets its views and its owner. If the memory must be read, sets `*unread`
// to the lease of it instead of the owner. Returns false if a region isn't announced yet; then no address was taken
// over. Reads no data of the buffers.
inline bool Reader::Impl::locate(const dissociated::Receiver::Item& item, std::shared_ptr<BatchLease>* unread) {
  const ipc::BatchHeader& header = current.header;
  if (item.body_type != dissociated::BodyType::kRemote) {
    if (header.codec != ipc::Codec::kNone) {
      if (DeviceBodies::context_of(item.body_owner)) {
        throw UnsupportedError("the stream \"" + name +
                               "\" sends compressed bodies, which can't be received in memory of " +
                               device::to_string(*options.device) + ": get it on the host");
      }
      current.owner = decompressor.decompress(*current.schema, item.body, item.body_owner, name.c_str(),
                                              &current.header, &current.views);
    } else {
      view_packed(item);
    }
    return true;
  }
  if (header.codec != ipc::Codec::kNone) {
    throw ProtocolError("the stream \"" + name +
                        "\" sends a compressed body by address; only bodies that are sent by value may be compressed");
  }
  const std::uint64_t total = dissociated::copy_remote_body(item.body, &remote);
  if (remote.size() != header.buffers.size()) {
    throw ProtocolError("a body has " + std::to_string(remote.size()) + " buffers, but its metadata has " +
                        std::to_string(header.buffers.size()));
  }
  auto lease = std::make_shared<BatchLease>(data_connection ? data_connection : connection);
  std::uint64_t* held = lease->begin(remote.size());
  bool mapped = true;
  try {
    if (!view_remote(total, lease.get(), &held, &mapped)) return false;
  } catch (const InterruptedError&) {
    throw;  // no address was taken over: next() can try again
  } catch (...) {
    // Frees the addresses later, even though something is wrong with them.
    held = lease->begin(remote.size());
    for (const dissociated::RemoteBuffer& buffer : remote) {
      if (buffer.address != 0) *held++ = buffer.address;
    }
    lease->take_over(held);
    throw;
  }
  lease->take_over(held);
  if (mapped) [[likely]] {
    current.owner = std::move(lease);
  } else {
    *unread = std::move(lease);
  }
  return true;
}

// Looks up the memory of each buffer, and checks it, and the body. Writes the addresses to `*held`. Returns false if a
// region isn't announced yet. Views of memory that must be read are set later.
inline bool Reader::Impl::view_remote(std::uint64_t total, BatchLease* lease, std::uint64_t** held, bool* mapped) {
  std::uint64_t* to = *held;
  // The body's total isn't the metadata's: it is wrong itself, or one of the lengths is, which the loop finds.
  if (total != static_cast<std::uint64_t>(current.header.buffer_bytes)) dissociated::check_remote_body(remote, total);
  current.views = std::vector<array::BufferView>(remote.size());
  array::BufferView* view = current.views.data();
  const ipc::BufferRange* range = current.header.buffers.data();
  std::uint64_t base = 0;  // of the region that the last buffer was in: most bodies are in one
  std::uint64_t size = 0;
  std::uintptr_t here = 0;
  for (const dissociated::RemoteBuffer& buffer : remote) {
    const auto [address, length] = buffer;
    if (length != static_cast<std::uint64_t>(range->length)) [[unlikely]]
      fail_length(static_cast<std::size_t>(&buffer - remote.data()), total);
    if (length != 0) {
      if (address - base >= size || length > size - (address - base)) [[unlikely]] {
        const transport::PeerRegion* const in = enter_region(static_cast<std::size_t>(&buffer - remote.data()), lease);
        if (in == nullptr) return false;
        base = in->base;
        size = in->size;
        here = reinterpret_cast<std::uintptr_t>(in->here);
        *mapped = *mapped && in->mapped != nullptr;
      }
      // Of memory that must be read, `here` is 0: no pointer could be moved.
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      *view = {reinterpret_cast<const void*>(here + (address - base)), static_cast<std::int64_t>(length)};
      *to = address;
      to += address != 0;
    } else if (address != 0) [[unlikely]] {
      dissociated::check_remote_body(remote, total);
    }
    ++view;
    ++range;
  }
  *held = to;
  return true;
}

void Reader::Impl::fail_length(std::size_t i, std::uint64_t total) const {
  dissociated::check_remote_body(remote, total);  // which says more about a body that is wrong in itself
  throw ProtocolError("buffer " + std::to_string(i) + " of a body has " + std::to_string(remote[i].length) +
                      " bytes, but its metadata says " + std::to_string(current.header.buffers[i].length));
}

// Finds the region that the i-th buffer is in. Returns null if it isn't announced yet.
const transport::PeerRegion* Reader::Impl::enter_region(std::size_t i, BatchLease* lease) {
  const auto [address, length] = remote[i];
  std::shared_ptr<const transport::PeerRegion> found = region(address);
  if (!found) return nullptr;
  if (!found->contains(address, length)) {
    throw ProtocolError("buffer " + std::to_string(i) + " of a body is outside its region: " + std::to_string(length) +
                        " bytes at " + std::to_string(address - found->base) + " of " + std::to_string(found->size));
  }
  if (found->context != current.context) [[unlikely]]
    set_place(found->context, i);
  if (options.copy_on_write && found->mapped && found->context == nullptr) [[unlikely]]
    found = writable(std::move(found));
  return &lease->add(std::move(found));
}

// Returns the region in a private mapping. Recycled memory gets one for each batch: later batches in the same memory
// must not show what the consumer wrote to this one.
std::shared_ptr<const transport::PeerRegion> Reader::Impl::writable(
    std::shared_ptr<const transport::PeerRegion> found) {
  std::erase_if(written_regions, [](const auto& known) { return known.second.expired(); });
  for (const auto& [region, mapping] : written_regions) {
    if (region != found.get()) continue;
    if (auto known = mapping.lock()) return known;
  }
  const transport::PeerRegion* const key = found.get();
  const std::uint64_t base = found->base;
  const std::uint64_t size = found->size;
  const bool changes = found->mapped->kind() == device::RegionKind::kRecycled;
  auto memory = device::Region::map_private(found->mapped, "a region of the stream \"" + name + "\" to write to");
  // The region stays with its mapping, so that no other can have its address meanwhile.
  std::shared_ptr<const device::Region> both(memory.get(), [memory, found = std::move(found)](const auto*) {});
  auto made = std::make_shared<const transport::PeerRegion>(base, size, std::move(both));
  if (!changes) written_regions.emplace_back(key, made);
  return made;
}

// Records that a body's i-th buffer is on another device than those before it: none may be before it.
void Reader::Impl::set_place(const std::shared_ptr<device::Context>& context, std::size_t i) {
  const bool is_first = std::ranges::all_of(std::span(remote).first(i),
                                            [](const dissociated::RemoteBuffer& buffer) { return buffer.length == 0; });
  if (!is_first) throw ProtocolError("a body of the stream \"" + name + "\" is only partly on a device");
  current.context = context;
}

// Returns the region of this address. If its announcement is late, waits for it, or, in a call that must not wait or
// while other bodies are being read, returns null until a time limit.
std::shared_ptr<const transport::PeerRegion> Reader::Impl::region(std::uint64_t address) {
  transport::Connection& from = bodies_from().transport();
  if (may_wait && queued.empty()) {
    region_deadline = 0;
    return from.peer_region(address, to_ms(kAnnouncementTimeout), interrupted);
  }
  if (!from.knows_region(address)) {
    if (region_deadline == 0) region_deadline = deadline_ns(kAnnouncementTimeout);
    if (now_ns() < region_deadline) return nullptr;
  }
  region_deadline = 0;
  return from.peer_region(address, 0);
}

// Handles a type 0 body, which contains the bytes themselves. A body without an owner will be overwritten by the
// transport.
void Reader::Impl::view_packed(const dissociated::Receiver::Item& item) {
  // The header's ranges were checked against this length.
  if (item.body.size() != static_cast<std::uint64_t>(current.header.body_length)) {
    throw ProtocolError("a body of the stream \"" + name + "\" has " + std::to_string(item.body.size()) +
                        " bytes, but its metadata says " + std::to_string(current.header.body_length));
  }
  current.owner = item.body_owner;
  current.context = DeviceBodies::context_of(current.owner);
  current.received = current.context != nullptr;
  const std::byte* base = item.body.data();
  if (!current.owner) {
    constexpr std::align_val_t alignment{kBufferAlignment};
    auto* memory = static_cast<std::byte*>(::operator new(std::max<std::size_t>(item.body.size(), 1), alignment));
    current.owner = std::shared_ptr<const void>(
        memory, [](const void* given) { ::operator delete(const_cast<void*>(given), alignment); });
    if (!item.body.empty()) std::memcpy(memory, base, item.body.size());
    base = memory;
  }
  current.views.resize(current.header.buffers.size());
  for (std::size_t i = 0; i < current.header.buffers.size(); ++i) {
    const ipc::BufferRange& range = current.header.buffers[i];
    current.views[i] = range.length == 0 ? array::BufferView{} : array::BufferView{base + range.offset, range.length};
  }
}

// Appends the body in `current` to those that wait for their turn. With `unread`, its memory is read.
void Reader::Impl::enqueue(const dissociated::Receiver::Item& item, std::shared_ptr<BatchLease> unread) {
  auto body = std::make_unique<QueuedBody>(std::exchange(current, {}), bodies_from().transport(), name);
  if (options.on_batch) {
    body->metadata.assign(item.metadata.begin(), item.metadata.end());
    body->type = item.body_type;
    if (item.body_type == dissociated::BodyType::kRemote) body->remote = remote;
    // Without an owner, the next message overwrites the bytes.
    body->bytes_owner = item.body_owner;
    if (!item.body_owner) body->copy.assign(item.body.begin(), item.body.end());
    body->bytes = item.body_owner ? item.body : ByteSpan(body->copy);
  }
  body->lease = std::move(unread);
  if (body->lease) plan_reads(body.get());
  // Bodies that arrive by value behind a slow read count as well, and empty ones count by their metadata.
  std::uint64_t bytes = item.metadata.size();
  for (const array::BufferView& view : body->batch.views) bytes += static_cast<std::uint64_t>(view.size);
  queued.push(std::move(body), bytes);
  bodies_from().transport().wait_for_reads_only(!queued.has_room());
}

// Nothing but this bounds the memory of a body that is read: a region is announced in a few bytes, however large.
void Reader::Impl::check_size_of_reads(std::uint64_t size) const {
  const transport::Agreement& agreement = (data_connection ? *data_connection : *connection).transport().agreement();
  if (size <= agreement.max_body) return;
  throw LeaseLimitError("a batch of the stream \"" + name + "\" needs " + std::to_string(size) +
                        " bytes to be read from the server's memory, but this client accepts only " +
                        std::to_string(agreement.max_body) +
                        " bytes at once: raise its max_body, select fewer columns, or publish smaller batches");
}

// Plans the reads of the selected columns, of whole dictionaries, into memory of ours.
void Reader::Impl::plan_reads(QueuedBody* queued_body) {
  BatchBody* const body = &queued_body->batch;
  std::vector<transport::ReadPart>* const parts = &queued_body->parts;
  std::vector<std::size_t> wanted;  // by index in `remote`
  if (!options.columns || body->kind == ipc::MessageKind::kDictionaryBatch) {
    for (std::size_t i = 0; i < remote.size(); ++i) wanted.push_back(i);
  } else {
    body->header = ipc::select(body->header, *body->schema, selected, &wanted);
    body->schema = delivered_schema;
    body->selected = true;
    body->views.assign(wanted.size(), {});
  }
  std::uint64_t size = 0;
  for (const std::size_t i : wanted) size = align_up(size, kBufferAlignment) + remote[i].length;
  if (size == 0) return;
  check_size_of_reads(size);
  if (!read_memory) {
    read_memory = memory_given(options);
    if (!read_memory) read_memory = transport::make_body_pool();
  }
  const std::shared_ptr<std::byte> memory = read_memory->allocate(size);
  std::uint64_t at = 0;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const dissociated::RemoteBuffer& buffer = remote[wanted[k]];
    if (buffer.length == 0) continue;
    std::byte* const to = memory.get() + at;
    body->views[k] = {to, static_cast<std::int64_t>(buffer.length)};
    at += align_up(buffer.length, kBufferAlignment);
    // Buffers that lie one after the other, here and there, are read together, with the padding between them.
    transport::ReadPart* const last = parts->empty() ? nullptr : &parts->back();
    const auto gap = last != nullptr ? static_cast<std::uint64_t>(to - last->to) : 0;
    if (last != nullptr && gap < last->length + kBufferAlignment && buffer.address == last->address + gap &&
        queued_body->lease->in_one_region(last->address, gap + buffer.length)) {
      last->length = gap + buffer.length;
    } else {
      parts->push_back({buffer.address, buffer.length, to});
    }
  }
  body->owner = memory;
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

// Takes the next message if it has arrived and there is room for its body. Sets `*out` if it is a batch whose memory is
// there. Returns false if nothing was taken.
inline bool Reader::Impl::take(std::optional<array::RecordBatch>* out) {
  if (!queued.has_room()) return false;
  const dissociated::Receiver::Item* item = nullptr;
  try {
    item = look();
    if (item == nullptr) return false;
    if (item->kind != dissociated::Receiver::Item::Kind::kMessage) {
      ended = item;
      const bool whole = item->kind == dissociated::Receiver::Item::Kind::kEnd;
      queued.end(whole ? dissociated::ReadQueue::Ending::kEnd : dissociated::ReadQueue::Ending::kError);
      return false;
    }
    if (deliver(*item, out)) return true;
    unfinished = item;
    return false;
  } catch (const InterruptedError&) {
    unfinished = item;  // its memory hasn't arrived
    throw;
  } catch (...) {
    if (queued.empty()) throw;
    failure = std::current_exception();  // of this message: the bodies before it come first
    queued.end(dissociated::ReadQueue::Ending::kEnd);
    return false;
  }
}

// Returns true if `*batch` was set to the next batch, or to nullopt at the end. Returns false if it hasn't arrived and
// `waiting` is false.
bool Reader::Impl::advance(bool waiting, std::optional<array::RecordBatch>* batch) {
  batch->reset();
  if (over) {
    if (failure) std::rethrow_exception(failure);  // a truncated stream must never look like one that ended
    return true;
  }
  pool->made_in().check("this Reader");
  if (trim && trim->count == 0 && !options.batches) [[unlikely]] {  // the server sends more
    drop();
    return true;
  }
  may_wait = waiting;
  const std::int64_t deadline = may_wait ? deadline_ns(options.timeout) : 0;
  try {
    for (bool woken = false;;) {
      // One message is taken for each body that comes out of the queue, so that reads overlap with the consumer's work.
      const bool took = take(batch);
      if (*batch) return true;
      std::unique_ptr<dissociated::ReadQueue::Body> body;
      const dissociated::ReadQueue::Due due = queued.next(&body);
      if (body) bodies_from().transport().wait_for_reads_only(!queued.has_room());
      if (body) deliver_queued(static_cast<QueuedBody*>(body.get()), batch);  // enqueue() made it
      if (*batch) return true;
      if (due == dissociated::ReadQueue::Due::kEnd || due == dissociated::ReadQueue::Due::kError) {
        if (failure) std::rethrow_exception(failure);
        finish(*ended);
        return true;
      }
      if (took || body) {
        if (may_wait) check_deadline(deadline);  // an endless series of dictionaries must not block the caller
        continue;
      }
      if (!may_wait) return false;
      if (woken) check_deadline(deadline);  // the parts of a long message also end the wait
      sleep(deadline);
      woken = true;
    }
  } catch (const TimeoutError&) {
    throw;  // may be called again
  } catch (const InterruptedError&) {
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
  queued.drop();
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
Polled Reader::try_next() noexcept {
  Polled found;
  try {
    if (impl_->advance(false, &found.batch)) found.state = found.batch ? Polled::State::kBatch : Polled::State::kEnd;
  } catch (...) {
    found.batch.reset();
    found.state = Polled::State::kFailed;
    found.error = std::current_exception();
  }
  return found;
}
bool Reader::prepare_sleep() {
  impl_->pool->made_in().check("this Reader");
  if (impl_->over) return false;
  try {
    // A region makes the descriptor readable even without prepare_sleep(). And prepare_sleep() would refuse to sleep
    // because of messages that have already arrived.
    if (impl_->waits_for_region() && impl_->queued.empty()) return true;
    return impl_->watched().transport().prepare_sleep();
  } catch (const ConnectionError&) {
    return false;  // try_next() returns it
  }
}
void Reader::awake() {
  impl_->pool->made_in().check("this Reader");
  if (!impl_->over) impl_->watched().transport().wake();
}
int Reader::descriptor() const { return impl_->over ? -1 : impl_->watched().transport().descriptor(); }
void Reader::set_interrupt_hook(transport::InterruptHook hook) { impl_->interrupted = std::move(hook); }
void Reader::close() {
  impl_->pool->made_in().check("this Reader");
  if (!impl_->over) impl_->failure = std::make_exception_ptr(ClosedError("this Reader was closed"));
  impl_->drop();
}
device::DeviceType Reader::device_type() const {
  return impl_->options.device ? impl_->options.device->type : device::DeviceType::kCpu;
}
std::uint64_t Reader::bytes_copied() const noexcept { return impl_->bytes_copied; }
const std::string& Reader::location() const noexcept { return impl_->pool->where(); }
std::int64_t Reader::version() const noexcept { return impl_->version; }
const std::vector<LocationTried>& Reader::passed_over() const noexcept { return impl_->tried; }
bool Reader::closed() const noexcept { return impl_->over; }

}  // namespace crossdock::session
