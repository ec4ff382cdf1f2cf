#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"

namespace crossdock::ipc {

/// Bounds on what a message from elsewhere may ask of us. Over one: InvalidDataError, before memory is taken.
struct Limits {
  // By default what a Schema may have: so whoever can publish a schema can be read.
  std::int32_t max_depth = array::kMaxDepth;
  std::int32_t max_fields = array::kMaxFields;  ///< Of one schema, all levels and dictionaries counted.
  std::int64_t max_metadata_bytes = 64ll << 20;
  std::int64_t max_decompressed_bytes = 4ll << 30;  ///< Of one compressed body, all its buffers together.
  std::int32_t max_buffers = array::kMaxBuffers;    ///< Of one batch, variadic ones counted.
};

/// The header of an IPC Message (Message.fbs, MessageHeader).
enum class MessageKind : std::uint8_t {
  kSchema = 1,
  kDictionaryBatch = 2,
  kRecordBatch = 3,
  kTensor = 4,
  kSparseTensor = 5,
};

/// The byte order of what buffers hold.
enum class Endianness : std::uint8_t { kLittle, kBig };

/// All that a Schema message says.
struct SchemaInfo {
  std::shared_ptr<const array::Schema> schema;
  Endianness endianness = Endianness::kLittle;
  std::vector<std::int64_t> features;  ///< Numbers of the enum Feature of Schema.fbs, known ones or not.
};

struct BufferRange {
  std::int64_t offset = 0;  ///< From the body's start.
  std::int64_t length = 0;  ///< Without padding.
};

/// How the buffers of a body are compressed, each by itself (Message.fbs, CompressionType).
enum class Codec : std::uint8_t { kNone, kLz4Frame, kZstd };

/// A RecordBatch or DictionaryBatch header, copied out of the flatbuffer. Reuse one object: its vectors keep their
/// memory.
struct BatchHeader {
  std::int64_t num_rows = 0;
  std::vector<array::Node> nodes;
  std::vector<BufferRange> buffers;
  std::vector<std::int64_t> variadic_counts;  ///< As in array::RecordBatch.
  std::int64_t body_length = 0;
  /// Other than kNone: `buffers` are the compressed bytes, each with the length before it; see Decompressor.
  Codec codec = Codec::kNone;
  std::int64_t dictionary_id = -1;  ///< DictionaryBatch only.
  bool is_delta = false;            ///< DictionaryBatch only.
  array::Metadata custom_metadata;  ///< The message's.
};

struct TensorHeader;  // tensor.h

/// A verified view of one Message. The bytes must outlive it, must not change (copy shared memory out first), and may
/// start at any address: if they aren't 8-aligned, parse copies them.
class CROSSDOCK_EXPORT Message {
 public:
  /// Verifies every table and vector of the flatbuffer. Versions V4 and V5 are read; others and SparseTensor
  /// throw UnsupportedTypeError; anything malformed throws InvalidDataError. `where` names the message in
  /// errors, also in those of the calls below, and must outlive it as the bytes must: a literal, or text that the
  /// caller keeps.
  static Message parse(ByteSpan metadata, const Limits& limits, const char* where);

  MessageKind kind() const noexcept { return kind_; }
  int version() const noexcept { return is_v4_ ? 4 : 5; }  ///< Of the metadata.
  bool has_body() const noexcept { return kind_ != MessageKind::kSchema; }
  std::int64_t body_length() const noexcept { return body_length_; }

  /// The message's own, of any kind.
  array::Metadata custom_metadata() const;

  /// Schema messages only. A type of a later format throws UnsupportedTypeError naming the field's path; so does, of
  /// this one, a foreign endianness.
  std::shared_ptr<const array::Schema> schema() const;
  /// The same of data of either endianness, with all that the message says: for who can swap bytes.
  SchemaInfo schema_info() const;

  /// RecordBatch and DictionaryBatch. Checks counts of nodes, buffers and variadic buffers against `schema`, that
  /// lengths are not negative and agree with the number of rows and with the parents' lengths, that nulls are at most
  /// the length (-1, unknown, is taken) and have a bitmap, that buffers lie in the body, don't overlap (empty ones
  /// apart) and are long enough for their elements. What offsets point into isn't known from metadata and isn't
  /// checked. Null counts of unions and run-end encoded nodes, which have no validity of their own, become 0. The
  /// validity that these have in V4 is left out, also from `out->buffers`; where it marks nulls the message is refused
  /// with UnsupportedTypeError. Of a compressed body the lengths can't be checked yet: Decompressor does. For a
  /// DictionaryBatch pass the slot's `values` schema (Schema::find_dictionary by dictionary_id()). On a throw `*out` is
  /// unspecified.
  void batch(const array::Schema& schema, BatchHeader* out) const;
  /// DictionaryBatch only: which dictionary.
  std::int64_t dictionary_id() const;
  /// Tensor only; see tensor.h. Checks that every element lies within the data, and the data within the body. Throws
  /// InvalidDataError.
  TensorHeader tensor() const;

 private:
  Message() = default;
  const void* root_ = nullptr;  // flatbuf::Message, whose name stays in src/ipc
  std::shared_ptr<const void> copy_;
  const char* where_ = "";
  Limits limits_;
  MessageKind kind_ = MessageKind::kSchema;
  bool is_v4_ = false;
  std::int64_t body_length_ = 0;
};

/// Where the buffers of a body lie if not packed at 64-byte alignment as they are: of a compressed one.
struct BodyLayout {
  Codec codec = Codec::kNone;
  std::vector<BufferRange> buffers;
  std::int64_t body_length = 0;
};

/// Writes IPC metadata (V5). Keep one: its memory is reused. One thread at a time.
class CROSSDOCK_EXPORT Encoder {
 public:
  Encoder();
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // Each returned span is valid until the next call on this encoder, and is the flatbuffer alone: no continuation
  // marker, no length. The message's custom metadata is the batch's.
  ByteSpan schema(const array::Schema& schema, std::span<const std::int64_t> features = {},
                  const array::Metadata& custom_metadata = {});
  /// The header of a normalized batch (array::normalized: offsets 0). Buffer offsets are written as if the body were
  /// packed at 64-byte alignment. A null count of -1 becomes 0 where there is no bitmap, and else stays -1, as no
  /// buffer is read here.
  ByteSpan record_batch(const array::RecordBatch& batch);
  ByteSpan dictionary_batch(const array::RecordBatch& values, std::int64_t id, bool is_delta);
  /// The same for a body that lies as `body` says, one range for each buffer.
  ByteSpan record_batch(const array::RecordBatch& batch, const BodyLayout& body);
  ByteSpan dictionary_batch(const array::RecordBatch& values, std::int64_t id, bool is_delta, const BodyLayout& body);
  /// A dense tensor whose data lie at `tensor.data` in its body, which ends there, padded to 64. Throws
  /// InvalidDataError for one that tensor_extent() refuses, or that is longer than its data.
  ByteSpan tensor(const TensorHeader& tensor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A batch whose buffer i is `buffers[i]` cut to header.buffers[i].length, with the nodes and the custom metadata of
/// `header` (which came from Message::batch with the same schema). Moves nothing, reads no buffer. `owner` keeps the
/// memory alive. A validity buffer of length 0 becomes an absent one, {nullptr, 0}. Throws InvalidArgumentError if
/// counts or sizes disagree.
CROSSDOCK_EXPORT array::RecordBatch assemble(std::shared_ptr<const array::Schema> schema, const BatchHeader& header,
                                             const std::vector<array::BufferView>& buffers,
                                             std::vector<std::shared_ptr<const array::RecordBatch>> dictionaries,
                                             std::shared_ptr<const void> owner);

}  // namespace crossdock::ipc
