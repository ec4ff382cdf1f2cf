#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dissociated/wire.h"
#include "ipc/metadata.h"
#include "support.h"

namespace crossdock::dissociated {

/// Metadata of a stream of one int64 column, as the codec writes it, and the messages that carry it.
class StreamMaker {
 public:
  StreamMaker() {
    array::Field field;
    field.name = "x";
    field.type.id = array::TypeId::kInt64;
    schema_ = std::make_shared<const array::Schema>(std::vector<array::Field>{field});
  }

  std::vector<std::byte> schema(std::uint32_t sequence = 0) { return metadata(sequence, encoder_.schema(*schema_)); }
  std::vector<std::byte> batch(std::uint32_t sequence, std::int64_t rows = 3) {
    return metadata(sequence, encoder_.record_batch(column(rows)));
  }
  std::vector<std::byte> dictionary(std::uint32_t sequence, std::int64_t rows = 3) {
    return metadata(sequence, encoder_.dictionary_batch(column(rows), 7, false));
  }
  static std::vector<std::byte> end(std::uint32_t sequence) {
    const PrefixBytes prefix = write_prefix(MessageType::kEndOfStream, sequence);
    return {prefix.begin(), prefix.end()};
  }
  static std::vector<std::byte> error(std::uint32_t sequence, std::string_view reason) {
    const PrefixBytes prefix = write_prefix(MessageType::kError, sequence);
    std::vector<std::byte> message(prefix.begin(), prefix.end());
    const ByteSpan text = as_bytes(reason);
    message.insert(message.end(), text.begin(), text.end());
    return message;
  }
  static std::vector<std::byte> metadata(std::uint32_t sequence, ByteSpan flatbuffer) {
    const PrefixBytes prefix = write_prefix(MessageType::kMetadata, sequence);
    std::vector<std::byte> message(prefix.begin(), prefix.end());
    message.insert(message.end(), flatbuffer.begin(), flatbuffer.end());
    return message;
  }

  /// A type 1 body that tells its number.
  static std::vector<std::byte> remote(std::uint32_t sequence) {
    std::vector<std::byte> body;
    const RemoteBuffer buffers[] = {{0, 0}, {64 + std::uint64_t{sequence} * 64, 24}};
    write_remote_body(buffers, &body);
    return body;
  }
  static constexpr std::uint64_t remote_tag(std::uint32_t sequence) { return write_tag(sequence, BodyType::kRemote); }
  static constexpr std::uint64_t packed_tag(std::uint32_t sequence) { return write_tag(sequence, BodyType::kPacked); }

 private:
  array::RecordBatch column(std::int64_t rows) const {
    array::RecordBatch batch;
    batch.schema = schema_;
    batch.num_rows = rows;
    batch.nodes = {{rows, 0, 0}};
    batch.buffers = {{nullptr, 0}, {rows == 0 ? nullptr : values_, rows * 8}};
    return batch;
  }

  std::shared_ptr<const array::Schema> schema_;
  ipc::Encoder encoder_;
  std::int64_t values_[16] = {};
};

}  // namespace crossdock::dissociated
