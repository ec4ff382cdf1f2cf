#include "ipc/describe.h"

#include <memory>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "ipc/internal/codec.h"
#include "ipc/internal/flatbuf.h"

namespace crossdock::ipc {
namespace {

constexpr std::string_view kExtensionName = "ARROW:extension:name";
// Limits in bytes: names come from peers, and many deep fields have long paths.
constexpr std::size_t kMostOfAName = 200;
constexpr std::size_t kMostOfAPath = 1000;

std::string path_below(const std::string& parent, std::string_view name, std::size_t position) {
  std::string path = parent.empty() ? std::string() : (parent.size() > kMostOfAPath ? "..." : parent) + '.';
  if (name.empty()) return path + '[' + std::to_string(position) + ']';
  path += printable(name.substr(0, kMostOfAName));
  if (name.size() > kMostOfAName) path += "...";
  return path;
}

// The recursion here and below is as deep as the schema, whose depth was limited when it was made.
void describe_below(const std::vector<array::Field>& fields, const std::string& parent, int depth,
                    std::vector<FieldDescription>* out) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const array::Field& field = fields[i];
    FieldDescription one;
    one.path = path_below(parent, field.name, i);
    one.depth = depth;
    one.nullable = field.nullable;
    one.metadata = field.metadata;
    for (const auto& [key, value] : field.metadata) {
      if (key == kExtensionName) one.extension = value;
    }
    if (field.dictionary) {
      one.type = array::type_name(field.dictionary->type);
      one.index_type = array::type_name(field.type);
      one.dictionary_id = field.dictionary_id;
      one.ordered = field.dictionary_ordered;
    } else {
      one.type = array::type_name(field.type);
    }
    const std::string path = one.path;
    out->push_back(std::move(one));
    // Values that are dictionary-encoded themselves are one more field, without a name.
    if (field.dictionary && field.dictionary->dictionary) {
      describe_below({*field.dictionary}, path, depth + 1, out);
    } else {
      describe_below(field.dictionary ? field.dictionary->children : field.children, path, depth + 1, out);
    }
  }
}

/// Appends the paths of a schema's nodes, in their order. Dictionaries' values have none.
void paths_below(const std::vector<array::Field>& fields, const std::string& parent, std::vector<std::string>* out) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::string path = path_below(parent, fields[i].name, i);
    out->push_back(path);
    paths_below(fields[i].children, path, out);
  }
}

void summarize_batch(const flatbuf::RecordBatch* batch, const char* where, MessageSummary* out) {
  if (batch == nullptr) return;
  out->num_rows = batch->length();
  out->n_nodes = batch->nodes() ? batch->nodes()->size() : 0;
  out->n_buffers = batch->buffers() ? batch->buffers()->size() : 0;
  out->codec = read_codec(batch->compression(), where);
}

std::int64_t count_nulls(const array::Schema& schema, const std::vector<array::Node>& nodes) {
  std::int64_t total = 0;
  std::size_t open = 0;  // remaining nodes below the current top-level node
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool is_top = open == 0;
    if (!is_top) --open;
    open += static_cast<std::size_t>(schema.nodes()[i].n_children);
    if (!is_top) continue;
    if (nodes[i].null_count < 0 || !checked_add(total, nodes[i].null_count, &total)) return -1;
  }
  return total;
}

}  // namespace

std::string_view kind_name(MessageKind kind) noexcept {
  switch (kind) {
    case MessageKind::kSchema: return "schema";
    case MessageKind::kDictionaryBatch: return "dictionary";
    case MessageKind::kRecordBatch: return "record batch";
    case MessageKind::kTensor: return "tensor";
    case MessageKind::kSparseTensor: return "sparse tensor";
  }
  return "unknown";
}

std::string_view compression_name(Codec codec) noexcept {
  switch (codec) {
    case Codec::kNone: return "none";
    case Codec::kLz4Frame: return "lz4";
    case Codec::kZstd: return "zstd";
  }
  return "unknown";
}

std::string_view buffer_kind_name(array::BufferKind kind) noexcept {
  using array::BufferKind;
  switch (kind) {
    case BufferKind::kValidity: return "validity";
    case BufferKind::kBits: return "bits";
    case BufferKind::kFixed:
    case BufferKind::kBytes: return "data";
    case BufferKind::kOffsets32:
    case BufferKind::kListViewOffsets32: return "int32 offsets";
    case BufferKind::kOffsets64:
    case BufferKind::kListViewOffsets64: return "int64 offsets";
    case BufferKind::kTypeIds: return "type ids";
    case BufferKind::kUnionOffsets: return "union offsets";
    case BufferKind::kViews: return "views";
    case BufferKind::kListViewSizes32: return "int32 sizes";
    case BufferKind::kListViewSizes64: return "int64 sizes";
  }
  return "unknown";
}

MessageSummary summarize(ByteSpan metadata, const Limits& limits, const char* where) {
  std::shared_ptr<const void> copy;
  const auto* message = verified_root<flatbuf::Message>(aligned(metadata, limits, &copy), limits, where);
  check_version(message->version(), where);
  MessageSummary out;
  out.kind = kind_of(*message, where);
  if (message->header() == nullptr) throw InvalidDataError(std::string(where) + ": the message's header is absent");
  out.version = static_cast<int>(message->version()) + 1;
  out.body_length = message->body_length();
  out.n_metadata = message->custom_metadata() ? message->custom_metadata()->size() : 0;
  if (const auto* schema = message->header_as_Schema()) {
    out.n_fields = schema->fields() ? schema->fields()->size() : 0;
  } else if (const auto* dictionary = message->header_as_DictionaryBatch()) {
    out.dictionary_id = dictionary->id();
    out.is_delta = dictionary->is_delta();
    summarize_batch(dictionary->data(), where, &out);
  } else {
    summarize_batch(message->header_as_RecordBatch(), where, &out);
  }
  return out;
}

std::vector<FieldDescription> describe_fields(const array::Schema& schema) {
  std::vector<FieldDescription> out;
  describe_below(schema.fields(), "", 0, &out);
  return out;
}

BatchDescription describe_batch(ByteSpan metadata, const array::Schema& schema, const Limits& limits,
                                const char* where) {
  BatchDescription out;
  out.message = summarize(metadata, limits, where);
  const Message message = Message::parse(metadata, limits, where);
  std::shared_ptr<const array::Schema> values;
  if (message.kind() == MessageKind::kDictionaryBatch) {
    values = schema.find_dictionary(message.dictionary_id());
    if (!values) {
      throw InvalidDataError(std::string(where) + ": dictionary " + std::to_string(message.dictionary_id()) +
                             " isn't used by any field of the schema");
    }
  }
  const array::Schema& of = values ? *values : schema;
  BatchHeader header;
  message.batch(of, &header);
  out.custom_metadata = std::move(header.custom_metadata);
  out.null_count = count_nulls(of, header.nodes);

  std::vector<std::string> paths;
  paths.reserve(of.nodes().size());
  paths_below(of.fields(), "", &paths);
  out.nodes.reserve(of.nodes().size());
  out.buffers.reserve(header.buffers.size());
  array::BufferCursor at(header.variadic_counts);
  for (std::size_t i = 0; i < of.nodes().size(); ++i) {
    const array::LayoutNode& node = of.nodes()[i];
    at.enter(node);
    out.nodes.push_back({std::move(paths[i]), array::type_name(node.field->type), header.nodes[i].length,
                         header.nodes[i].null_count, at.first(), at.end() - at.first()});
    for (std::size_t j = 0; j < node.type.n_buffers; ++j) {
      out.buffers.push_back({buffer_kind_name(node.type.buffers[j]), -1, header.buffers[at.first() + j]});
    }
    for (std::size_t j = 0; j < at.n_variadic(); ++j) {
      out.buffers.push_back({"variadic", static_cast<std::int64_t>(j),
                             header.buffers[at.first() + static_cast<std::size_t>(node.type.n_buffers) + j]});
    }
  }
  return out;
}

std::optional<std::int64_t> decompressed_size(ByteSpan head, std::int64_t size) noexcept {
  if (size == 0) return 0;
  if (size < kLengthPrefix || head.size() < static_cast<std::size_t>(kLengthPrefix)) return std::nullopt;
  const auto length = load_le<std::int64_t>(head.data());
  if (length == kStoredRaw) return size - kLengthPrefix;
  return length < 0 ? std::nullopt : std::optional(length);
}

}  // namespace crossdock::ipc
