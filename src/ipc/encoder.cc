#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/text.h"
#include "ipc/internal/flatbuf.h"
#include "ipc/internal/schema_writer.h"
#include "ipc/internal/type_map.h"
#include "ipc/metadata.h"
#include "ipc/tensor.h"

namespace crossdock::ipc {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

void check_counts(const array::RecordBatch& batch) {
  if (!batch.schema) throw InvalidArgumentError("encoding a record batch: it has no schema");
  const array::Schema& schema = *batch.schema;
  auto variadic = static_cast<std::int64_t>(batch.buffers.size()) - schema.n_buffers();
  bool fits = batch.nodes.size() == schema.nodes().size() &&
              batch.variadic_counts.size() == static_cast<std::size_t>(schema.n_variadic());
  for (const std::int64_t count : batch.variadic_counts) {
    fits = fits && count >= 0 && count <= variadic;
    variadic -= count;
  }
  if (!fits || variadic != 0) {
    throw InvalidArgumentError("encoding a record batch: it has " + std::to_string(batch.nodes.size()) + " nodes, " +
                               std::to_string(batch.buffers.size()) + " buffers and " +
                               std::to_string(batch.variadic_counts.size()) +
                               " variadic counts, but its schema needs " + std::to_string(schema.nodes().size()) +
                               ", " + std::to_string(schema.n_buffers()) +
                               (schema.has_views() ? " with as many more as the counts say, and " : " and ") +
                               std::to_string(schema.n_variadic()));
  }
  if (batch.buffers.size() > static_cast<std::size_t>(array::kMaxBuffers)) {
    throw InvalidDataError("encoding a record batch: its " + std::to_string(batch.buffers.size()) +
                           " buffers are more than " + std::to_string(array::kMaxBuffers) +
                           "; compact its view columns, or split it");
  }
}

/// Finds and throws the reason why the numbers of a batch can't be written. The fast loops below only detect that there
/// is one, as one bit.
[[noreturn]] void fail_numbers(const array::RecordBatch& batch) {
  const auto& layout = batch.schema->nodes();
  for (std::size_t i = 0; i < batch.nodes.size(); ++i) {
    const array::Node& node = batch.nodes[i];
    const std::string field = "encoding a record batch: field \"" + excerpt(layout[i].field->name) + "\": ";
    if (node.offset != 0) {
      throw InvalidArgumentError(field + "its offset is " + std::to_string(node.offset) +
                                 ", but IPC requires 0; pass the batch through array::normalized first");
    }
    if (node.length < 0) throw InvalidArgumentError(field + "its length is " + std::to_string(node.length));
  }
  throw InvalidArgumentError("encoding a record batch: the number of rows or a buffer's size is negative");
}

/// Returns the null count of a node whose count is unknown, as far as it follows without reading a buffer: no validity
/// means no nulls. Otherwise returns -1, which this library's decoder and Arrow C++ read as unknown.
std::int64_t null_count(const array::RecordBatch& batch, std::size_t node) {
  const array::LayoutNode& layout = batch.schema->nodes()[node];
  if (layout.id == array::TypeId::kNull) return batch.nodes[node].length;
  if (!layout.type.has_validity()) return 0;
  auto first = static_cast<std::size_t>(layout.first_buffer);
  if (batch.schema->has_views()) {
    array::BufferCursor at(batch.variadic_counts);
    for (std::size_t i = 0; i <= node; ++i) at.enter(batch.schema->nodes()[i]);
    first = at.first();
  }
  const array::BufferView& validity = batch.buffers[first];
  return validity.size == 0 || validity.data == nullptr ? 0 : -1;
}

struct WrittenBatch {
  Offset<flatbuf::RecordBatch> table;
  std::int64_t body_length;
};

void check_layout(const array::RecordBatch& batch, const BodyLayout& body) {
  if (body.buffers.size() == batch.buffers.size()) return;
  throw InvalidArgumentError("encoding a record batch: its body has " + std::to_string(body.buffers.size()) +
                             " buffers, the batch " + std::to_string(batch.buffers.size()));
}

Offset<flatbuf::BodyCompression> write_codec(FlatBufferBuilder& builder, Codec codec) {
  switch (codec) {
    case Codec::kNone: break;
    case Codec::kLz4Frame: return flatbuf::CreateBodyCompression(builder, flatbuf::CompressionType::LZ4_FRAME);
    case Codec::kZstd: return flatbuf::CreateBodyCompression(builder, flatbuf::CompressionType::ZSTD);
  }
  return {};
}

/// Writes a batch. If `body` is null, the body is packed at 64-byte alignment.
WrittenBatch write_batch(FlatBufferBuilder& builder, const array::RecordBatch& batch, const BodyLayout* body) {
  check_counts(batch);
  if (body != nullptr) check_layout(batch, *body);
  std::int64_t signs = batch.num_rows;  // negative if any number was negative
  std::int64_t offsets = 0;             // not zero if any offset was not zero

  flatbuf::Buffer* buffer = nullptr;
  const auto buffers = builder.CreateUninitializedVectorOfStructs(batch.buffers.size(), &buffer);
  std::uint64_t end = 0;
  for (const array::BufferView& view : batch.buffers) {
    *buffer++ = flatbuf::Buffer(static_cast<std::int64_t>(end), view.size);
    signs |= view.size;
    end += align_up(static_cast<std::uint64_t>(view.size), kBufferAlignment);
  }
  if (body != nullptr) {
    buffer -= batch.buffers.size();
    for (const BufferRange& range : body->buffers) *buffer++ = flatbuf::Buffer(range.offset, range.length);
    end = static_cast<std::uint64_t>(body->body_length);
  }

  flatbuf::FieldNode* written = nullptr;
  const auto nodes = builder.CreateUninitializedVectorOfStructs(batch.nodes.size(), &written);
  for (std::size_t i = 0; i < batch.nodes.size(); ++i) {
    const array::Node& node = batch.nodes[i];
    signs |= node.length;
    offsets |= node.offset;
    *written++ = flatbuf::FieldNode(node.length, node.null_count >= 0 ? node.null_count : null_count(batch, i));
  }
  if (signs < 0 || offsets != 0) fail_numbers(batch);
  Offset<flatbuffers::Vector<std::int64_t>> counts;
  if (!batch.variadic_counts.empty()) counts = builder.CreateVector(batch.variadic_counts);
  const auto compression = body != nullptr ? write_codec(builder, body->codec) : Offset<flatbuf::BodyCompression>();
  return {flatbuf::CreateRecordBatch(builder, batch.num_rows, nodes, buffers, compression, counts),
          static_cast<std::int64_t>(end)};
}

}  // namespace

struct Encoder::Impl {
  FlatBufferBuilder builder{1024};

  ByteSpan finish(flatbuf::MessageHeader kind, Offset<void> header, std::int64_t body_length,
                  const array::Metadata& custom_metadata) {
    const auto metadata = write_metadata(builder, custom_metadata);
    builder.Finish(flatbuf::CreateMessage(builder, flatbuf::MetadataVersion::V5, kind, header, body_length, metadata));
    return {reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()};
  }
};

Encoder::Encoder() : impl_(std::make_unique<Impl>()) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

ByteSpan Encoder::schema(const array::Schema& schema, std::span<const std::int64_t> features,
                         const array::Metadata& custom_metadata) {
  impl_->builder.Clear();
  const auto header = write_schema(impl_->builder, schema, features);
  return impl_->finish(flatbuf::MessageHeader::Schema, header.Union(), 0, custom_metadata);
}

ByteSpan Encoder::record_batch(const array::RecordBatch& batch, const BodyLayout* body) {
  impl_->builder.Clear();
  const WrittenBatch written = write_batch(impl_->builder, batch, body);
  return impl_->finish(flatbuf::MessageHeader::RecordBatch, written.table.Union(), written.body_length,
                       batch.custom_metadata);
}

ByteSpan Encoder::dictionary_batch(const array::RecordBatch& values, std::int64_t id, bool is_delta,
                                   const BodyLayout* body) {
  impl_->builder.Clear();
  const WrittenBatch written = write_batch(impl_->builder, values, body);
  const auto header = flatbuf::CreateDictionaryBatch(impl_->builder, id, written.table, is_delta);
  return impl_->finish(flatbuf::MessageHeader::DictionaryBatch, header.Union(), written.body_length,
                       values.custom_metadata);
}

ByteSpan Encoder::tensor(const TensorHeader& tensor) {
  constexpr const char* kWhere = "encoding a tensor";
  const BufferRange& data = tensor.data;
  std::int64_t end = 0;
  if (tensor_extent(tensor, kWhere) > data.length || data.offset < 0 || !checked_add(data.offset, data.length, &end) ||
      end > std::numeric_limits<std::int64_t>::max() - static_cast<std::int64_t>(kBufferAlignment)) {
    throw InvalidDataError(std::string(kWhere) + ": its elements aren't inside its data, " +
                           std::to_string(data.length) + " bytes at " + std::to_string(data.offset));
  }
  const auto padded = static_cast<std::int64_t>(align_up(static_cast<std::uint64_t>(end), kBufferAlignment));
  if (tensor.body_length != 0 && tensor.body_length < end) {
    throw InvalidDataError(std::string(kWhere) + ": its data ends at " + std::to_string(end) + ", behind its body of " +
                           std::to_string(tensor.body_length));
  }
  FlatBufferBuilder& builder = impl_->builder;
  builder.Clear();
  const ipc::WrittenType type = write_type(builder, tensor.type);
  std::vector<Offset<flatbuf::TensorDim>> dimensions;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const auto name = tensor.names.empty() ? Offset<flatbuffers::String>() : builder.CreateString(tensor.names[i]);
    dimensions.push_back(flatbuf::CreateTensorDim(builder, tensor.shape[i], name));
  }
  const auto shape = builder.CreateVector(dimensions);
  const auto strides = builder.CreateVector(tensor.strides);
  const flatbuf::Buffer buffer(data.offset, data.length);
  const auto header = flatbuf::CreateTensor(builder, type.kind, type.table, shape, strides, &buffer);
  return impl_->finish(flatbuf::MessageHeader::Tensor, header.Union(),
                       tensor.body_length != 0 ? tensor.body_length : padded, tensor.custom_metadata);
}

}  // namespace crossdock::ipc
