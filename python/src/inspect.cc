#include "inspect.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "gil.h"
#include "session/inspect.h"
#include "session/observe.h"
#include "text.h"
#include "types.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

nb::list pairs_of(const array::Metadata& metadata) {
  nb::list result;
  for (const auto& [key, value] : metadata) {
    nb::list pair;
    pair.append(escaped(key));
    pair.append(escaped(value));
    result.append(pair);
  }
  return result;
}

/// Adds the description of a schema to a dict.
void put_schema(const array::Schema& schema, nb::dict* to) {
  nb::list fields;
  for (const ipc::FieldDescription& field : ipc::describe_fields(schema)) {
    nb::dict one;
    one["path"] = escaped(field.path);
    one["depth"] = field.depth;
    one["type"] = escaped(field.type);
    one["nullable"] = field.nullable;
    one["dictionary"] = count_or_none(field.dictionary_id);
    one["index_type"] = field.index_type.empty() ? nb::object(nb::none()) : escaped(field.index_type);
    one["ordered"] = field.ordered;
    one["extension"] = field.extension.empty() ? nb::object(nb::none()) : escaped(field.extension);
    one["metadata"] = pairs_of(field.metadata);
    fields.append(one);
  }
  (*to)["schema_metadata"] = pairs_of(schema.metadata());
  (*to)["fields"] = fields;
}

/// The location of the buffers that a description lists: the offset of a body in a file, or the remote buffers of a
/// stream.
struct Whereabouts {
  std::int64_t body_offset = 0;
  std::span<const dissociated::RemoteBuffer> remote{};
};

nb::dict to_dict(const ipc::BufferDescription& buffer, std::size_t index, const Whereabouts& where) {
  nb::dict result;
  result["kind"] = escaped(buffer.kind);
  result["variadic"] = count_or_none(buffer.variadic);
  result["size"] = buffer.range.length;
  result["decompressed"] = count_or_none(buffer.decompressed);
  if (where.remote.empty()) {
    result["offset"] = where.body_offset + buffer.range.offset;
  } else {
    const std::uint64_t address = where.remote[index].address;
    result["address"] = address;
    result["region"] = address == 0 ? nb::object(nb::none()) : nb::object(nb::int_(device::address_region(address)));
    result["offset"] = device::address_offset(address);
  }
  return result;
}

std::int64_t data_bytes(const ipc::BatchDescription& batch) {
  std::int64_t total = 0;
  for (const ipc::BufferDescription& buffer : batch.buffers) {
    const std::int64_t size = batch.message.codec == ipc::Codec::kNone ? buffer.range.length : buffer.decompressed;
    if (size < 0 || !checked_add(total, size, &total)) return -1;
  }
  return total;
}

nb::dict to_dict(const ipc::BatchDescription& batch, bool replaces, bool with_nodes, const Whereabouts& where) {
  nb::dict result;
  const bool is_dictionary = batch.message.kind == ipc::MessageKind::kDictionaryBatch;
  result["kind"] = escaped(ipc::kind_name(batch.message.kind));
  result["version"] = batch.message.version;
  result["rows"] = batch.message.num_rows;
  result["nulls"] = count_or_none(batch.null_count);
  result["body_bytes"] = batch.message.body_length;
  result["data_bytes"] = count_or_none(data_bytes(batch));
  result["compression"] = batch.message.codec == ipc::Codec::kNone
                              ? nb::object(nb::none())
                              : escaped(ipc::compression_name(batch.message.codec));
  result["dictionary"] = is_dictionary ? nb::object(nb::int_(batch.message.dictionary_id)) : nb::object(nb::none());
  result["delta"] = batch.message.is_delta;
  result["replaces"] = replaces;
  result["metadata"] = pairs_of(batch.custom_metadata);
  if (!with_nodes) return result;
  nb::list nodes;
  for (const ipc::NodeDescription& node : batch.nodes) {
    nb::list buffers;
    for (std::size_t i = node.first_buffer; i < node.first_buffer + node.n_buffers; ++i) {
      buffers.append(to_dict(batch.buffers[i], i, where));
    }
    nb::dict one;
    one["path"] = escaped(node.path);
    one["type"] = escaped(node.type);
    one["rows"] = node.length;
    one["nulls"] = count_or_none(node.null_count);
    one["buffers"] = buffers;
    nodes.append(one);
  }
  result["nodes"] = nodes;
  return result;
}

/// Detects dictionary batches that replace an earlier dictionary.
class Dictionaries {
 public:
  bool replaces(const ipc::MessageSummary& message) {
    return message.kind == ipc::MessageKind::kDictionaryBatch && !seen_.insert(message.dictionary_id).second &&
           !message.is_delta;
  }

 private:
  std::unordered_set<std::int64_t> seen_;
};

// ---- files ----

/// Not thread-safe by itself. The GIL guards it, which is released only while the file is opened.
class PyFileInspector {
 public:
  explicit PyFileInspector(const nb::bytes& path) {
    const std::string name(path.c_str(), path.size());
    const GilRelease release;
    inspector_ = std::make_unique<session::FileInspector>(name);
  }

  nb::dict about() const {
    const ipc::Container& plan = inspector_->plan();
    const auto dictionaries = std::count_if(plan.messages.begin(), plan.messages.end(), [](const auto& message) {
      return message.kind == ipc::MessageKind::kDictionaryBatch;
    });
    nb::dict result;
    result["form"] = plan.has_footer ? "file" : "stream";
    result["size"] = inspector_->size();
    result["version"] = plan.version;
    result["endianness"] = plan.endianness == ipc::Endianness::kBig ? "big" : "little";
    result["compressed"] = plan.compressed;
    result["rows"] = plan.num_rows;
    result["batches"] = static_cast<std::int64_t>(plan.messages.size()) - dictionaries;
    result["dictionaries"] = dictionaries;
    result["metadata"] = pairs_of(plan.custom_metadata);
    put_schema(*plan.schema, &result);
    return result;
  }

  /// Returns the next message, or nullopt at the end.
  std::optional<nb::dict> next(bool with_nodes) {
    const ipc::Container& plan = inspector_->plan();
    if (position_ == plan.messages.size()) return std::nullopt;
    const ipc::ContainerMessage& place = plan.messages[position_];
    const ipc::BatchDescription batch = inspector_->describe(position_++);
    nb::dict result =
        to_dict(batch, dictionaries_.replaces(batch.message), with_nodes, {.body_offset = place.body_offset});
    result["metadata_offset"] = place.metadata_offset;
    result["metadata_bytes"] = place.metadata_length;
    result["body_offset"] = place.body_offset;
    return result;
  }

 private:
  std::unique_ptr<session::FileInspector> inspector_;
  std::size_t position_ = 0;
  Dictionaries dictionaries_;
};

// ---- streams ----

/// A batch that arrived, kept until Python takes it.
struct Arrived {
  std::uint32_t sequence;
  dissociated::BodyType body_type;
  std::int64_t body_bytes;
  ipc::BatchDescription batch;
  std::vector<dissociated::RemoteBuffer> remote;
};

Arrived describe_arrival(const session::BatchArrival& arrival) {
  Arrived out{arrival.sequence,
              arrival.body_type,
              static_cast<std::int64_t>(arrival.body.size()),
              ipc::describe_batch(arrival.metadata, arrival.schema, {}, "the metadata"),
              {arrival.remote.begin(), arrival.remote.end()}};
  if (out.batch.message.codec == ipc::Codec::kNone) return out;
  for (ipc::BufferDescription& buffer : out.batch.buffers) {
    const auto [offset, length] = buffer.range;
    if (offset < 0 || length < 0 || offset > out.body_bytes || length > out.body_bytes - offset) {
      throw InvalidDataError("a body has " + std::to_string(out.body_bytes) + " bytes, but its metadata says that " +
                             std::to_string(length) + " bytes at " + std::to_string(offset) + " are a buffer of it");
    }
    const ByteSpan bytes = arrival.body.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
    buffer.decompressed = ipc::decompressed_size(bytes, buffer.range.length).value_or(-1);
  }
  return out;
}

nb::dict to_dict(const Arrived& arrived, bool replaces) {
  nb::dict result = to_dict(arrived.batch, replaces, true, {.remote = arrived.remote});
  result["number"] = arrived.sequence;
  result["body"] = arrived.body_type == dissociated::BodyType::kRemote ? "addresses" : "bytes";
  result["message_bytes"] = arrived.body_bytes;
  std::vector<std::uint16_t> regions;
  for (const dissociated::RemoteBuffer& buffer : arrived.remote) {
    if (buffer.address != 0) regions.push_back(device::address_region(buffer.address));
  }
  std::sort(regions.begin(), regions.end());
  regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
  nb::list named;
  for (const std::uint16_t region : regions) named.append(static_cast<int>(region));
  result["regions"] = named;
  return result;
}

const char* connection_name(ChannelRole role) {
  switch (role) {
    case ChannelRole::kBoth: return "both";
    case ChannelRole::kMetadata: return "metadata";
    case ChannelRole::kData: return "data";
    case ChannelRole::kMessages: return "messages";
  }
  return "unknown";
}

nb::dict to_dict(const session::WireMessage& message) {
  using session::WireKind;
  nb::dict result;
  result["direction"] = message.direction == session::Direction::kSent ? "sent" : "received";
  result["tagged"] = message.tagged;
  result["connection"] = connection_name(message.role);
  result["kind"] = session::wire_kind_name(message.kind);
  result["size"] = message.size;
  if (message.tagged) result["tag"] = message.tag;
  if (message.kind == WireKind::kMetadata || message.kind == WireKind::kBody ||
      message.kind == WireKind::kEndOfStream || message.kind == WireKind::kError) {
    result["number"] = message.sequence;
  }
  if (message.kind == WireKind::kWantData) result["ticket"] = escaped(message.text);
  if (!message.text.empty() && message.kind != WireKind::kWantData) result["reason"] = escaped(message.text);
  if (message.message) {
    const ipc::MessageSummary& summary = *message.message;
    result["metadata"] = escaped(ipc::kind_name(summary.kind));
    result["version"] = summary.version;
    result["custom_metadata"] = summary.n_metadata;
    if (summary.kind == ipc::MessageKind::kSchema) {
      result["fields"] = summary.n_fields;
    } else {
      result["rows"] = summary.num_rows;
      result["nodes"] = summary.n_nodes;
      result["buffers"] = summary.n_buffers;
      result["body_bytes"] = summary.body_length;
      result["compression"] =
          summary.codec == ipc::Codec::kNone ? nb::object(nb::none()) : escaped(ipc::compression_name(summary.codec));
      if (summary.kind == ipc::MessageKind::kDictionaryBatch) {
        result["dictionary"] = summary.dictionary_id;
        result["delta"] = summary.is_delta;
      }
    }
  }
  if (message.kind == WireKind::kBody) {
    result["body_type"] = static_cast<int>(message.body_type);
    if (message.body_type == dissociated::BodyType::kRemote) {
      result["total"] = message.total;
      result["nbuf"] = message.n_buffers;
    }
  }
  if (message.kind == WireKind::kFreeData) result["count"] = message.n_buffers;
  if (!message.buffers.empty()) {
    nb::list first;
    for (const dissociated::RemoteBuffer& buffer : message.buffers) first.append(buffer.address);
    result["first_addresses"] = first;
  }
  result["text"] = escaped(session::to_text(message));
  return result;
}

}  // namespace

struct StreamLog::Shared {
  // Limits, because a stream may send any number of dictionaries between two batches.
  static constexpr std::size_t kMostMessages = 1 << 16;
  static constexpr std::size_t kMostBuffers = 1 << 20;

  void add(const session::WireEvent& event) {
    session::WireMessage message = session::decode_wire(event);
    const std::lock_guard lock(mutex);
    if (messages.size() == kMostMessages) {
      ++left_out;
    } else {
      messages.push_back(std::move(message));
    }
  }
  void add(const session::BatchArrival& arrival) {
    Arrived arrived = describe_arrival(arrival);
    const std::size_t size = 1 + arrived.batch.nodes.size() + arrived.batch.buffers.size();
    const std::lock_guard lock(mutex);
    if (!batches.empty() && kept + size > kMostBuffers) {
      ++left_out;
    } else {
      kept += size;
      batches.push_back(std::move(arrived));
    }
  }

  std::mutex mutex;
  std::vector<session::WireMessage> messages;
  std::vector<Arrived> batches;
  std::size_t kept = 0;  // nodes and buffers in `batches`
  std::size_t left_out = 0;
  Dictionaries dictionaries;  // guarded by the GIL
};

StreamLog::StreamLog(bool messages, bool batches)
    : shared_(std::make_shared<Shared>()), messages_(messages), batches_(batches) {}

session::WireObserver StreamLog::message_observer() const {
  if (!messages_) return {};
  return [log = shared_](const session::WireEvent& event) { log->add(event); };
}

void StreamLog::attach(session::TensorOptions* options) const { options->on_message = message_observer(); }

void StreamLog::attach(session::GetOptions* options) const {
  options->on_message = message_observer();
  if (batches_) options->on_batch = [log = shared_](const session::BatchArrival& arrival) { log->add(arrival); };
}

nb::list StreamLog::take_messages() {
  std::vector<session::WireMessage> taken;
  {
    const std::lock_guard lock(shared_->mutex);
    taken.swap(shared_->messages);
  }
  nb::list result;
  for (const session::WireMessage& message : taken) result.append(to_dict(message));
  return result;
}

nb::list StreamLog::take_batches() {
  std::vector<Arrived> taken;
  {
    const std::lock_guard lock(shared_->mutex);
    taken.swap(shared_->batches);
    shared_->kept = 0;
  }
  nb::list result;
  for (const Arrived& arrived : taken) {
    result.append(to_dict(arrived, shared_->dictionaries.replaces(arrived.batch.message)));
  }
  return result;
}

std::size_t StreamLog::left_out() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->left_out;
}

void bind_inspect(nb::module_& module) {
  nb::class_<PyFileInspector>(module, "FileInspector", "The metadata of an Arrow IPC file or stream file.")
      .def(nb::init<const nb::bytes&>(), "path"_a)
      .def("about", &PyFileInspector::about, "Returns the properties of the file, with its schema.")
      .def("next", &PyFileInspector::next, "buffers"_a,
           "Returns the next record batch or dictionary of the file, or None at the end.");
  nb::class_<StreamLog>(module, "StreamLog",
                        "A log of the messages and batches of a stream that is received. For Client.get().")
      .def(nb::init<bool, bool>(), "messages"_a, "batches"_a)
      .def("take_messages", &StreamLog::take_messages, "Returns the messages since the last call, decoded.")
      .def("take_batches", &StreamLog::take_batches, "Returns the batches and dictionaries since the last call.")
      .def_prop_ro("left_out", &StreamLog::left_out,
                   "The number of messages and batches that were dropped because the log was full.");
  module.def(
      "describe_schema",
      [](const PySchema& schema) {
        nb::dict result;
        put_schema(*schema.schema, &result);
        return result;
      },
      "schema"_a);
}

}  // namespace crossdock::python
