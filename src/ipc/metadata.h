#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/ipc/options.h"

namespace crossdock::ipc {

/// The header of an IPC Message (Message.fbs, MessageHeader).
enum class MessageKind : std::uint8_t {
  kSchema = 1,
  kDictionaryBatch = 2,
  kRecordBatch = 3,
  kTensor = 4,
  kSparseTensor = 5,
};

/// The byte order of the data in buffers.
enum class Endianness : std::uint8_t { kLittle, kBig };

/// Content of a Schema message.
struct SchemaInfo {
  std::shared_ptr<const array::Schema> schema;
  Endianness endianness = Endianness::kLittle;
  std::vector<std::int64_t> features;  ///< Numbers of the enum Feature of Schema.fbs, known ones or not.
};

struct BufferRange {
  std::int64_t offset = 0;  ///< From the body's start.
  std::int64_t length = 0;  ///< Without padding.
};

/// A RecordBatch or DictionaryBatch header, copied out of the flatbuffer. Reuse one object: its vectors keep their
/// memory.
struct BatchHeader {
  std::int64_t num_rows = 0;
  std::vector<array::Node> nodes;
  std::vector<BufferRange> buffers;
  std::vector<std::int64_t> variadic_counts;  ///< As in array::RecordBatch.
  std::int64_t body_length = 0;
  std::int64_t buffer_bytes = 0;  ///< Sum of the lengths in `buffers`, as the message gives them.
  /// If not kNone, `buffers` are the compressed bytes, each with the length before it; see Decompressor.
  Codec codec = Codec::kNone;
  std::int64_t dictionary_id = -1;  ///< DictionaryBatch only.
  bool is_delta = false;            ///< DictionaryBatch only.
  array::Metadata custom_metadata;  ///< Of the message.
};

struct TensorHeader;  // tensor.h

/// A verified view of one Message. The bytes must outlive it, must not change (copy shared memory out first), and may
/// start at any address: if they aren't 8-aligned, parse copies them.
class Message {
 public:
  /// Verifies every table and vector of the flatbuffer. Reads versions V4 and V5; throws UnsupportedTypeError for other
  /// versions and for SparseTensor, InvalidDataError for malformed data. `where` names the message in errors, also in
  /// those of the calls below. It must outlive the Message, as the bytes must: a literal, or text that the caller
  /// keeps.
  static Message parse(ByteSpan metadata, const Limits& limits, const char* where);

  MessageKind kind() const noexcept { return kind_; }
  int version() const noexcept { return is_v4_ ? 4 : 5; }  ///< Of the metadata.
  bool has_body() const noexcept { return kind_ != MessageKind::kSchema; }
  std::int64_t body_length() const noexcept { return body_length_; }

  /// Returns the custom metadata of the message, of any kind.
  array::Metadata custom_metadata() const;

  /// For Schema messages only. Throws UnsupportedTypeError, which names the field's path, for a type of a later format,
  /// and for a foreign endianness.
  std::shared_ptr<const array::Schema> schema() const;
  /// The same for data of either endianness, with the full content of the message: for callers that can swap bytes.
  SchemaInfo schema_info() const;

  /// Reads the header of a RecordBatch or DictionaryBatch into `*out`. For a DictionaryBatch pass the slot's `values`
  /// schema (Schema::find_dictionary by dictionary_id()).
  ///
  /// Checks:
  /// - counts of nodes, buffers and variadic buffers against `schema`;
  /// - lengths are not negative, and agree with the number of rows and with the parents' lengths;
  /// - nulls are at most the length (-1, unknown, is accepted) and have a bitmap;
  /// - buffers lie in the body, don't overlap (except empty ones) and are long enough for their elements.
  ///
  /// The data that offsets point into isn't known from metadata and isn't checked. Null counts of unions and run-end
  /// encoded nodes, which have no validity of their own, become 0. The validity that these have in V4 is dropped, also
  /// from `out->buffers`; if it marks nulls, the message is refused with UnsupportedTypeError. The lengths of a
  /// compressed body can't be checked yet: Decompressor checks them. On a throw `*out` is unspecified.
  void batch(const array::Schema& schema, BatchHeader* out) const;
  /// For a DictionaryBatch only: returns the id of the dictionary.
  std::int64_t dictionary_id() const;
  /// For a Tensor only; see tensor.h. Checks that every element lies within the data, and the data within the body.
  /// Throws InvalidDataError.
  TensorHeader tensor() const;

 private:
  Message() = default;
  const void* root_ = nullptr;  // a flatbuf::Message, a type known in src/ipc only
  std::shared_ptr<const void> copy_;
  const char* where_ = "";
  Limits limits_;
  MessageKind kind_ = MessageKind::kSchema;
  bool is_v4_ = false;
  std::int64_t body_length_ = 0;
};

/// The places of buffers in a body that isn't packed at 64-byte alignment, such as a compressed one.
struct BodyLayout {
  Codec codec = Codec::kNone;
  std::vector<BufferRange> buffers;
  std::int64_t body_length = 0;
};

/// Writes IPC metadata (V5). Reuse one object, so that its memory is reused. One thread at a time.
class Encoder {
 public:
  Encoder();
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // Each returned span is valid until the next call on this encoder, and is the flatbuffer alone: no continuation
  // marker, no length. The message's custom metadata is the batch's.
  ByteSpan schema(const array::Schema& schema, std::span<const std::int64_t> features = {},
                  const array::Metadata& custom_metadata = {});
  /// Writes the header of a normalized batch (array::normalized: offsets 0). Buffer offsets are those of `body`, which
  /// has one range for each buffer; without it, those of a body that is packed at 64-byte alignment. A null count of -1
  /// becomes 0 if there is no bitmap; else it stays -1, because no buffer is read here.
  ByteSpan record_batch(const array::RecordBatch& batch, const BodyLayout* body = nullptr);
  ByteSpan dictionary_batch(const array::RecordBatch& values, std::int64_t id, bool is_delta,
                            const BodyLayout* body = nullptr);
  /// Writes a dense tensor whose data lies at `tensor.data` in its body of `tensor.body_length` bytes. Throws
  /// InvalidDataError for a tensor that tensor_extent() refuses, that is longer than its data, or whose data ends
  /// behind its body.
  ByteSpan tensor(const TensorHeader& tensor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Makes a batch whose buffer i is `buffers[i]` cut to header.buffers[i].length, with the nodes and the custom metadata
/// of `header`, which came from Message::batch with the same schema. Copies nothing and reads no buffer. `owner` keeps
/// the memory alive. A buffer of length 0 becomes an absent one, {nullptr, 0}. Throws InvalidArgumentError if counts or
/// sizes disagree.
array::RecordBatch assemble(std::shared_ptr<const array::Schema> schema, const BatchHeader& header,
                            std::vector<array::BufferView> buffers,
                            std::vector<std::shared_ptr<const array::RecordBatch>> dictionaries,
                            std::shared_ptr<const void> owner);

}  // namespace crossdock::ipc
