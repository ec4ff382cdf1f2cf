#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/amounts.h"
#include "core/text.h"
#include "ipc/internal/batch_checks.h"
#include "ipc/internal/flatbuf.h"
#include "ipc/internal/schema_reader.h"
#include "ipc/metadata.h"

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
  fail(where, "field \"" + excerpt(layout.field->name) + "\" (" + array::type_name(layout.field->type) + "): " + what);
}

/// True if a buffer of `size` bytes holds `length` elements (`length` isn't negative). The number of bytes that offsets
/// point into can't be told from metadata.
inline bool is_long_enough(BufferKind kind, std::int32_t width, std::int64_t length, std::int64_t size) {
  std::int64_t needed = 0;
  if (kind == BufferKind::kFixed) return checked_multiply<std::int64_t>(length, width, &needed) && size >= needed;
  if (kind == BufferKind::kValidity || kind == BufferKind::kBits) return size >= length / 8 + (length % 8 != 0);
  if (const std::int32_t own = array::element_width(kind, 0); own > 0) return size / own >= length;
  if (kind == BufferKind::kBytes || length == 0) return true;  // at length 0, writers write one offset or none
  return size / (kind == BufferKind::kOffsets32 ? 4 : 8) > length;
}

/// Checks a node with LayoutNode::element_bits quickly. Returns false if something is wrong with it, or may be.
inline bool primitive_fits(const LayoutNode& layout, const BufferRange* buffers, Node* node) {
  std::int64_t bits = 0;
  if (!checked_multiply(node->length, layout.element_bits, &bits)) return false;
  if (buffers[1].length < bits / 8 + (bits % 8 != 0)) return false;
  if (buffers[0].length != 0) return buffers[0].length >= node->length / 8 + (node->length % 8 != 0);
  if (node->null_count > 0) return false;
  node->null_count = 0;
  return true;
}

inline void check_buffers(const LayoutNode& layout, const BufferRange* buffers, const char* where, Node* node) {
  if (layout.element_bits != 0 && primitive_fits(layout, buffers, node)) [[likely]]
    return;
  for (std::uint8_t i = 0; i < layout.type.n_buffers; ++i) {
    const BufferKind kind = layout.type.buffers[i];
    const std::int64_t size = buffers[i].length;
    if (kind == BufferKind::kValidity && size == 0) {
      if (node->null_count > 0) {
        fail_field(where, layout, counted(node->null_count, "null") + ", but no validity buffer");
      }
      node->null_count = 0;
    } else if (!is_long_enough(kind, layout.type.width, node->length, size)) {
      fail_field(where, layout,
                 "buffer " + std::to_string(i) + " has " + std::to_string(size) + " bytes, too few for " +
                     std::to_string(node->length) + " elements");
    }
  }
  // A node without validity has no nulls of its own, whatever count the writer gives.
  if (!layout.type.has_validity() && layout.id != array::TypeId::kNull) node->null_count = 0;
}

/// Checks that a parent's children are long enough for it, in preorder. Returns the index after the subtree. The
/// recursion is as deep as the schema, whose depth was limited when it was made.
std::size_t check_children(const array::Schema& schema, const std::vector<Node>& nodes, std::size_t index,
                           const char* where) {
  const LayoutNode& parent = schema.nodes()[index];
  std::int64_t at_least = 0;
  if (parent.id == array::TypeId::kStruct || parent.id == array::TypeId::kSparseUnion) at_least = nodes[index].length;
  if (parent.id == array::TypeId::kRunEndEncoded && nodes[index].length > 0) at_least = 1;
  if (parent.id == array::TypeId::kFixedSizeList &&
      !checked_multiply<std::int64_t>(nodes[index].length, parent.fixed_size, &at_least)) {
    fail_field(where, parent,
               std::to_string(nodes[index].length) + " lists have so many elements that their number overflows");
  }
  std::size_t child = index + 1;
  for (std::int32_t i = 0; i < parent.n_children; ++i) {
    if (nodes[child].length < at_least) {
      fail_field(where, schema.nodes()[child],
                 std::to_string(nodes[child].length) + " elements, but its parent needs " + std::to_string(at_least));
    }
    child = check_children(schema, nodes, child, where);
    // A run-end encoded node has as many values as run ends, which come first.
    if (parent.id == array::TypeId::kRunEndEncoded) at_least = nodes[index + 1].length;
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
  // Copies bytes, because the verifier guarantees that the structs exist, but not that they are aligned.
  const std::uint8_t* from = nodes ? nodes->Data() : nullptr;
  Node* to = out->nodes.data();
  for (std::size_t i = 0; i < found; ++i, from += sizeof(flatbuf::FieldNode)) {
    std::int64_t length = 0;
    std::int64_t null_count = 0;
    std::memcpy(&length, from, sizeof length);
    std::memcpy(&null_count, from + sizeof length, sizeof null_count);
    // -1 (unknown) isn't in the format's text, but is sent by writers that can't read the data that they pass on.
    if (length < 0 || null_count < -1 || null_count > length) {
      fail_field(where, schema.nodes()[i],
                 "length " + std::to_string(length) + " with a null count of " + std::to_string(null_count));
    }
    to[i] = {length, null_count, 0};
  }
}

inline bool lies_in(const BufferRange& range, std::int64_t body_length) {
  return range.offset >= 0 && range.length >= 0 && range.offset <= body_length &&
         range.length <= body_length - range.offset;
}

/// Reads the number of variadic buffers of each view. Returns their sum.
std::int64_t read_variadic_counts(const flatbuf::RecordBatch& batch, const array::Schema& schema, const char* where,
                                  const Limits& limits, BatchHeader* out) {
  const auto* counts = batch.variadic_buffer_counts();
  const std::size_t found = counts ? counts->size() : 0;
  if (found != static_cast<std::size_t>(schema.n_variadic())) {
    fail(where, std::to_string(found) + " variadic buffer counts, but the schema has " +
                    std::to_string(schema.n_variadic()) + " fields of a view type");
  }
  out->variadic_counts.resize(found);
  if (found == 0) return 0;
  // Copies bytes, because the verifier guarantees that the numbers exist, but not that they are aligned.
  std::memcpy(out->variadic_counts.data(), counts->Data(), found * sizeof(std::int64_t));
  std::int64_t sum = 0;
  for (const std::int64_t count : out->variadic_counts) {
    if (count < 0 || count > limits.max_buffers - sum) {
      fail(where, "a view has " + std::to_string(count) + " variadic buffers; a batch may have " +
                      std::to_string(limits.max_buffers) + " buffers");
    }
    sum += count;
  }
  return sum;
}

/// True for a node that has a validity bitmap in V4 but not in V5. In V4 all types but the null type have one before
/// their other buffers. Unions, and run-end encoded nodes as Arrow C++ writes them, lost theirs in V5.
bool had_bitmap_in_v4(const LayoutNode& node) { return !node.type.has_validity() && node.id != array::TypeId::kNull; }

/// Removes those bitmaps from the buffers: the current format has no place for them.
void drop_bitmaps_of_v4(const array::Schema& schema, const char* where, BatchHeader* out) {
  array::BufferCursor at(out->variadic_counts);
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < schema.nodes().size(); ++i) {
    const LayoutNode& layout = schema.nodes()[i];
    at.enter(layout);
    if (had_bitmap_in_v4(layout)) {
      if (out->buffers[at.first() + dropped].length > 0 && out->nodes[i].null_count != 0) {
        throw UnsupportedTypeError(std::string(where) + ": field \"" + excerpt(layout.field->name) + "\" (" +
                                   array::type_name(layout.field->type) +
                                   "): it has nulls of its own, which only metadata version V4 supports for this type; "
                                   "write the data again with Arrow 1.0 or later");
      }
      ++dropped;
    }
    for (std::size_t b = at.first(); b < at.end(); ++b) out->buffers[b] = out->buffers[b + dropped];
  }
  out->buffers.resize(at.end());
}

/// Checks buffers that all lie in the body, but not one after the other. No writer does that, but the format allows it.
/// Empty buffers may lie anywhere.
void refuse_overlaps(const std::vector<BufferRange>& buffers, const char* where) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].length > 0) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return buffers[i].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const BufferRange& before = buffers[order[i - 1]];
    const BufferRange& range = buffers[order[i]];
    if (before.offset + before.length <= range.offset) continue;
    fail(where, "buffer " + std::to_string(order[i]) + " (offset " + std::to_string(range.offset) + ", length " +
                    std::to_string(range.length) + ") overlaps buffer " + std::to_string(order[i - 1]) + " (offset " +
                    std::to_string(before.offset) + ", length " + std::to_string(before.length) + ")");
  }
}

void read_buffers(const flatbuf::RecordBatch& batch, const array::Schema& schema, const char* where,
                  const Limits& limits, bool is_v4, BatchHeader* out) {
  const auto* buffers = batch.buffers();
  const std::size_t found = buffers ? buffers->size() : 0;
  std::int64_t needed = schema.n_buffers() + read_variadic_counts(batch, schema, where, limits, out);
  if (is_v4) needed += std::ranges::count_if(schema.nodes(), had_bitmap_in_v4);
  if (found != static_cast<std::size_t>(needed)) {
    fail(where, std::to_string(found) + " buffers, but the schema needs " + std::to_string(needed));
  }
  if (needed > limits.max_buffers) {
    fail(where, std::to_string(found) + " buffers are over the limit of " + std::to_string(limits.max_buffers));
  }
  out->buffers.resize(found);
  if (found == 0) return;
  std::memcpy(out->buffers.data(), buffers->Data(), found * sizeof(BufferRange));
  const std::int64_t body_length = out->body_length;
  // Checks lies_in() for all buffers without a branch, and that each begins after the end of those before it. The sign
  // bit of each comparison is collected in one number.
  const auto body = static_cast<std::uint64_t>(body_length);
  std::uint64_t signs = 0;
  std::uint64_t end = 0;
  for (const BufferRange& range : out->buffers) {
    const auto offset = static_cast<std::uint64_t>(range.offset);
    const auto length = static_cast<std::uint64_t>(range.length);
    signs |= offset | length | (body - offset) | (body - offset - length);
    if (length != 0) {
      signs |= offset - end;
      end = offset + length;
    }
  }
  if (static_cast<std::int64_t>(signs) >= 0) return;
  for (std::size_t i = 0; i < found; ++i) {
    const BufferRange& range = out->buffers[i];
    if (lies_in(range, body_length)) continue;
    fail(where, "buffer " + std::to_string(i) + " (offset " + std::to_string(range.offset) + ", length " +
                    std::to_string(range.length) + ") isn't inside the body of " + std::to_string(body_length) +
                    " bytes");
  }
  refuse_overlaps(out->buffers, where);
}

}  // namespace

Codec read_codec(const flatbuf::BodyCompression* compression, const char* where) {
  if (compression == nullptr) return Codec::kNone;
  if (compression->method() != flatbuf::BodyCompressionMethod::BUFFER) {
    throw UnsupportedTypeError(std::string(where) + ": the body is compressed by method " +
                               std::to_string(static_cast<int>(compression->method())) +
                               ", which isn't known to this version; it reads buffers that are compressed one by one");
  }
  switch (compression->codec()) {
    case flatbuf::CompressionType::LZ4_FRAME: return Codec::kLz4Frame;
    case flatbuf::CompressionType::ZSTD: return Codec::kZstd;
  }
  throw UnsupportedTypeError(std::string(where) + ": the body is compressed with codec " +
                             std::to_string(static_cast<int>(compression->codec())) +
                             ", which isn't known to this version; it reads LZ4_FRAME (0) and ZSTD (1)");
}

void check_lengths(const array::Schema& schema, const char* where, BatchHeader* out) {
  const LayoutNode* layout = schema.nodes().data();
  const std::size_t n_nodes = schema.nodes().size();
  const BufferRange* buffers = out->buffers.data();
  Node* nodes = out->nodes.data();
  array::BufferCursor at(out->variadic_counts);
  for (std::size_t i = 0; i < n_nodes; ++i) {
    at.enter(layout[i]);
    check_buffers(layout[i], buffers + at.first(), where, &nodes[i]);
  }
  for (std::size_t i = 0; i < n_nodes;) {
    if (nodes[i].length != out->num_rows) {
      fail_field(
          where, layout[i],
          std::to_string(nodes[i].length) + " elements in a batch of " + std::to_string(out->num_rows) + " rows");
    }
    i = layout[i].n_children == 0 ? i + 1 : check_children(schema, out->nodes, i, where);
  }
}

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
  out->codec = read_codec(batch->compression(), where_);
  if (batch->length() < 0) fail(where_, "the number of rows is " + std::to_string(batch->length()));
  out->num_rows = batch->length();
  out->body_length = body_length_;
  read_nodes(*batch, schema, where_, out);
  read_buffers(*batch, schema, where_, limits_, is_v4_, out);
  if (is_v4_) drop_bitmaps_of_v4(schema, where_, out);
  out->buffer_bytes = 0;  // at most the body's length, because buffers don't overlap
  for (const BufferRange& range : out->buffers) out->buffer_bytes += range.length;
  out->custom_metadata.clear();
  if (root.custom_metadata()) out->custom_metadata = read_metadata(root.custom_metadata(), limits_, where_);
  if (out->codec == Codec::kNone) check_lengths(schema, where_, out);
}

}  // namespace crossdock::ipc
