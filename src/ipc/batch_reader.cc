#include <cstdint>
#include <cstring>
#include <string>

#include "crossdock/ipc/metadata.h"
#include "flatbuf.h"

namespace crossdock::ipc {
namespace {

using array::BufferKind;
using array::LayoutNode;
using array::Node;

static_assert(sizeof(BufferRange) == sizeof(flatbuf::Buffer), "Buffer structs are copied out as they are");

[[noreturn]] void fail(const char* where, const std::string& what) {
  throw InvalidDataError(std::string(where) + ": " + what);
}

[[noreturn]] void fail_field(const char* where, const LayoutNode& layout, const std::string& what) {
  fail(where,
       "field \"" + layout.field->name.substr(0, 200) + "\" (" + array::type_name(layout.field->type) + "): " + what);
}

[[noreturn]] void fail_compressed(const char* where, const flatbuf::BodyCompression& compression) {
  std::string codec = "codec " + std::to_string(static_cast<int>(compression.codec()));
  if (compression.codec() == flatbuf::CompressionType::LZ4_FRAME) codec = "LZ4_FRAME";
  if (compression.codec() == flatbuf::CompressionType::ZSTD) codec = "ZSTD";
  throw UnsupportedTypeError(
      std::string(where) + ": the body is compressed (" + codec +
      "), which isn't supported yet: this version carries uncompressed data; write it again with "
      "compression=None");
}

/// Bytes that `length` elements need at least. False if that is more than an int64 says. The bytes that offsets point
/// into can't be told from metadata: 0.
bool needed_bytes(BufferKind kind, std::int32_t width, std::int64_t length, std::int64_t* bytes) {
  switch (kind) {
    case BufferKind::kValidity:
    case BufferKind::kBits: *bytes = length / 8 + (length % 8 != 0); return true;
    case BufferKind::kFixed: return checked_multiply<std::int64_t>(length, width, bytes);
    case BufferKind::kOffsets32:
    case BufferKind::kOffsets64: {
      if (length == 0) {
        *bytes = 0;  // Writers differ: one offset, or none.
        return true;
      }
      std::int64_t offsets = 0;
      return checked_add<std::int64_t>(length, 1, &offsets) &&
             checked_multiply<std::int64_t>(offsets, kind == BufferKind::kOffsets32 ? 4 : 8, bytes);
    }
    case BufferKind::kBytes: *bytes = 0; return true;
  }
  return false;
}

void check_buffers(const LayoutNode& layout, const BufferRange* buffers, const char* where, Node* node) {
  for (std::uint8_t i = 0; i < layout.type.n_buffers; ++i) {
    const BufferKind kind = layout.type.buffers[i];
    if (kind == BufferKind::kValidity && buffers[i].length == 0) {
      if (node->null_count > 0) {
        fail_field(where, layout, std::to_string(node->null_count) + " nulls, but no validity buffer");
      }
      node->null_count = 0;
      continue;
    }
    std::int64_t needed = 0;
    if (!needed_bytes(kind, layout.type.width, node->length, &needed) || buffers[i].length < needed) {
      fail_field(where, layout,
                 "buffer " + std::to_string(i) + " has " + std::to_string(buffers[i].length) + " bytes, too few for " +
                     std::to_string(node->length) + " elements");
    }
  }
}

/// Checks that a parent's children are long enough for it, over the preorder. Returns the index after the subtree.
/// Recursion is as deep as the schema, which was bounded when it was made.
std::size_t check_children(const array::Schema& schema, const std::vector<Node>& nodes, std::size_t index,
                           const char* where) {
  const LayoutNode& parent = schema.nodes()[index];
  std::int64_t at_least = 0;
  if (parent.id == array::TypeId::kStruct) at_least = nodes[index].length;
  if (parent.id == array::TypeId::kFixedSizeList &&
      !checked_multiply<std::int64_t>(nodes[index].length, parent.fixed_size, &at_least)) {
    fail_field(where, parent, std::to_string(nodes[index].length) + " lists have too many elements to count");
  }
  std::size_t child = index + 1;
  for (std::int32_t i = 0; i < parent.n_children; ++i) {
    if (nodes[child].length < at_least) {
      fail_field(where, schema.nodes()[child],
                 std::to_string(nodes[child].length) + " elements, but its parent needs " + std::to_string(at_least));
    }
    child = check_children(schema, nodes, child, where);
  }
  return child;
}

void read_nodes(const flatbuf::RecordBatch& batch, const array::Schema& schema, const char* where, BatchHeader* out) {
  const auto* nodes = batch.nodes();
  const std::size_t found = nodes ? nodes->size() : 0;
  if (found != schema.nodes().size()) {
    fail(where, std::to_string(found) + " field nodes, but the schema has " + std::to_string(schema.nodes().size()));
  }
  out->nodes.resize(found);
  // By bytes: the verifier promises that the structs are there, not that they are aligned.
  const std::uint8_t* from = nodes ? nodes->Data() : nullptr;
  for (std::size_t i = 0; i < found; ++i, from += sizeof(flatbuf::FieldNode)) {
    Node& node = out->nodes[i];
    std::memcpy(&node.length, from, sizeof node.length);
    std::memcpy(&node.null_count, from + sizeof node.length, sizeof node.null_count);
    node.offset = 0;
    // -1, unknown, isn't in the format's text, but what writers send who can't read the data that they pass on.
    if (node.length < 0 || node.null_count < -1 || node.null_count > node.length) {
      fail_field(where, schema.nodes()[i],
                 "length " + std::to_string(node.length) + " with a null count of " + std::to_string(node.null_count));
    }
  }
}

void read_buffers(const flatbuf::RecordBatch& batch, const array::Schema& schema, const char* where, BatchHeader* out) {
  const auto* buffers = batch.buffers();
  const std::size_t found = buffers ? buffers->size() : 0;
  if (found != static_cast<std::size_t>(schema.n_buffers())) {
    fail(where, std::to_string(found) + " buffers, but the schema needs " + std::to_string(schema.n_buffers()));
  }
  out->buffers.resize(found);
  if (found == 0) return;
  std::memcpy(out->buffers.data(), buffers->Data(), found * sizeof(BufferRange));
  for (std::size_t i = 0; i < found; ++i) {
    const BufferRange& range = out->buffers[i];
    if (range.offset < 0 || range.length < 0 || range.offset > out->body_length ||
        range.length > out->body_length - range.offset) {
      fail(where, "buffer " + std::to_string(i) + " (offset " + std::to_string(range.offset) + ", length " +
                      std::to_string(range.length) + ") doesn't lie in the body of " +
                      std::to_string(out->body_length) + " bytes");
    }
  }
}

void check_lengths(const array::Schema& schema, const char* where, BatchHeader* out) {
  const auto& layout = schema.nodes();
  for (std::size_t i = 0; i < layout.size(); ++i) {
    check_buffers(layout[i], out->buffers.data() + layout[i].first_buffer, where, &out->nodes[i]);
  }
  const bool is_flat = layout.size() == schema.fields().size();
  for (std::size_t i = 0; i < layout.size(); i = is_flat ? i + 1 : check_children(schema, out->nodes, i, where)) {
    if (out->nodes[i].length != out->num_rows) {
      fail_field(
          where, layout[i],
          std::to_string(out->nodes[i].length) + " elements in a batch of " + std::to_string(out->num_rows) + " rows");
    }
  }
}

}  // namespace

void Message::batch(const array::Schema& schema, BatchHeader* out) const {
  const auto& root = *static_cast<const flatbuf::Message*>(root_);
  const flatbuf::RecordBatch* batch = nullptr;
  if (kind_ == MessageKind::kRecordBatch) {
    batch = root.header_as_RecordBatch();
    out->dictionary_id = -1;
    out->is_delta = false;
  } else if (kind_ == MessageKind::kDictionaryBatch) {
    const flatbuf::DictionaryBatch& dictionary = *root.header_as_DictionaryBatch();
    batch = dictionary.data();
    if (!batch) fail(where_, "the dictionary batch has no data");
    out->dictionary_id = dictionary.id();
    out->is_delta = dictionary.is_delta();
  } else {
    throw InvalidArgumentError(std::string(where_) + ": not a record batch or dictionary batch");
  }
  if (batch->compression()) fail_compressed(where_, *batch->compression());
  if (batch->length() < 0) fail(where_, "the number of rows is " + std::to_string(batch->length()));
  out->num_rows = batch->length();
  out->body_length = body_length_;
  read_nodes(*batch, schema, where_, out);
  read_buffers(*batch, schema, where_, out);
  check_lengths(schema, where_, out);
}

}  // namespace crossdock::ipc
