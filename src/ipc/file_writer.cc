#include "ipc/file_writer.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "ipc/internal/dictionary_writer.h"
#include "ipc/internal/flatbuf.h"
#include "ipc/internal/framing.h"
#include "ipc/internal/schema_writer.h"

namespace crossdock::ipc {
namespace {

using namespace std::string_view_literals;

constexpr std::byte kZeros[kBufferAlignment]{};
constexpr std::string_view kHead = "ARROW1\0\0"sv;
constexpr std::size_t kPrefixSize = 8;

}  // namespace

struct FileWriter::Impl {
  Impl(Sink* to, std::shared_ptr<const array::Schema> of, FileWriterOptions given)
      : sink(*to), schema(std::move(of)), options(std::move(given)) {
    if (!schema) throw InvalidArgumentError("writing Arrow IPC: there is no schema");
    if (options.codec != Codec::kNone) compressor.emplace(options.codec, options.level, std::move(options.parallel));
    if (options.codec == Codec::kNone && options.level) {
      throw InvalidArgumentError("a compression level was given without a codec");
    }
    if (options.form == ContainerForm::kStream && !options.metadata.empty()) {
      throw InvalidArgumentError("footer metadata was given, but a stream file has no footer");
    }
    if (options.form == ContainerForm::kFile) {
      pieces.push_back(as_bytes(kHead));
      flush();
    }
    begin_message(encoder.schema(*schema));
    flush();
  }

  /// Adds prefix, metadata and padding to the pieces, so that the body begins at a multiple of 64.
  flatbuf::Block begin_message(ByteSpan metadata) {
    const auto start = static_cast<std::uint64_t>(position);
    const std::uint64_t end = align_up(start + kPrefixSize + metadata.size(), kBufferAlignment);
    const std::uint64_t padding = end - start - kPrefixSize - metadata.size();
    store_le(prefix, kContinuation);
    store_le(prefix + sizeof(std::int32_t), static_cast<std::int32_t>(metadata.size() + padding));
    pieces.emplace_back(prefix, kPrefixSize);
    pieces.push_back(metadata);
    pad(padding);
    return {position, static_cast<std::int32_t>(end - start), 0};
  }

  void pad(std::uint64_t n) {
    if (n > 0) pieces.emplace_back(kZeros, n);
  }

  void flush() {
    std::int64_t size = 0;
    for (const ByteSpan piece : pieces) size += static_cast<std::int64_t>(piece.size());
    sink.write(pieces);
    position += size;
    pieces.clear();
  }

  /// Writes a normalized batch. `encode` makes its metadata, with a layout, or without one if the body is packed as
  /// usual.
  template <class Encode>
  void write_message(const array::RecordBatch& batch, std::vector<flatbuf::Block>* blocks, const Encode& encode) {
    flatbuf::Block head;
    std::int64_t body_length = 0;
    if (compressor) {
      const CompressedBody& body = compressor->compress(batch);
      head = begin_message(encode(&body.layout));
      body_length = body.layout.body_length;
      pieces.insert(pieces.end(), body.pieces.begin(), body.pieces.end());
    } else {
      head = begin_message(encode(nullptr));
      std::uint64_t length = 0;
      for (const array::BufferView& view : batch.buffers) {
        if (view.size == 0) continue;
        const auto size = static_cast<std::size_t>(view.size);
        pieces.emplace_back(static_cast<const std::byte*>(view.data), size);
        pad(align_up(size, kBufferAlignment) - size);
        length += align_up(size, kBufferAlignment);
      }
      body_length = static_cast<std::int64_t>(length);
    }
    flush();
    if (options.form == ContainerForm::kFile) blocks->emplace_back(head.offset(), head.metadata_length(), body_length);
  }

  void write_dictionary(std::int64_t id, const array::RecordBatch& values, DictionaryWriter::Change change) {
    if (change == DictionaryWriter::Change::kReplacement && options.form == ContainerForm::kFile) {
      throw InvalidDataError(
          "dictionary " + std::to_string(id) +
          " has other values in this batch than in an earlier one, which the file form doesn't support: write a stream "
          "file, or use one dictionary for all batches (in pyarrow: table.unify_dictionaries())");
    }
    const bool is_delta = change == DictionaryWriter::Change::kDelta;
    write_message(values, &dictionary_blocks,
                  [&](const BodyLayout* layout) { return encoder.dictionary_batch(values, id, is_delta, layout); });
  }

  void write(const array::RecordBatch& given) {
    if (finished) throw InvalidArgumentError("writing a batch to an Arrow IPC file that was already finished");
    if (given.schema != schema && (!given.schema || !(*given.schema == *schema))) {
      throw InvalidDataError("writing Arrow IPC: a batch has another schema than the file");
    }
    std::int64_t copied = 0;
    const array::RecordBatch batch = array::normalized(given, &copied, array::Offsets::kFromZero);
    dictionaries.update(batch, [this](std::int64_t id, const array::RecordBatch& values,
                                      DictionaryWriter::Change change) { write_dictionary(id, values, change); });
    write_message(batch, &batch_blocks, [&](const BodyLayout* layout) { return encoder.record_batch(batch, layout); });
  }

  void finish() {
    if (finished) return;
    finished = true;
    store_le(prefix, kContinuation);
    store_le<std::int32_t>(prefix + sizeof(std::int32_t), 0);
    pieces.emplace_back(prefix, kPrefixSize);
    if (options.form == ContainerForm::kStream) return flush();
    flatbuffers::FlatBufferBuilder builder;
    const auto written_schema = write_schema(builder, *schema, {});
    const auto metadata = write_metadata(builder, options.metadata);
    const auto of_dictionaries = builder.CreateVectorOfStructs(dictionary_blocks);
    const auto of_batches = builder.CreateVectorOfStructs(batch_blocks);
    builder.Finish(flatbuf::CreateFooter(builder, flatbuf::MetadataVersion::V5, written_schema, of_dictionaries,
                                         of_batches, metadata));
    pieces.emplace_back(reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize());
    std::byte length[sizeof(std::int32_t)];
    store_le(length, static_cast<std::int32_t>(builder.GetSize()));
    pieces.emplace_back(length, sizeof length);
    pieces.push_back(as_bytes(kMagic));
    flush();
  }

  Sink& sink;
  std::shared_ptr<const array::Schema> schema;
  FileWriterOptions options;
  std::optional<Compressor> compressor;
  Encoder encoder;
  DictionaryWriter dictionaries;
  std::vector<flatbuf::Block> dictionary_blocks;
  std::vector<flatbuf::Block> batch_blocks;
  std::vector<ByteSpan> pieces;
  std::byte prefix[kPrefixSize]{};
  std::int64_t position = 0;
  bool finished = false;
};

FileWriter::FileWriter(Sink* sink, std::shared_ptr<const array::Schema> schema, FileWriterOptions options)
    : impl_(std::make_unique<Impl>(sink, std::move(schema), std::move(options))) {}
FileWriter::~FileWriter() = default;

void FileWriter::write(const array::RecordBatch& batch) { impl_->write(batch); }
void FileWriter::finish() { impl_->finish(); }
std::int64_t FileWriter::bytes_written() const noexcept { return impl_->position; }

}  // namespace crossdock::ipc
