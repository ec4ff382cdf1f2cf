#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "ipc/internal/flatbuf.h"
#include "ipc/internal/schema_reader.h"
#include "ipc/metadata.h"

namespace crossdock::ipc {

ByteSpan aligned(ByteSpan bytes, const Limits& limits, std::shared_ptr<const void>* copy) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % sizeof(std::uint64_t) == 0 ||
      bytes.size() > static_cast<std::uint64_t>(limits.max_metadata_bytes)) {
    return bytes;
  }
  auto words = std::make_shared_for_overwrite<std::uint64_t[]>(bytes.size() / sizeof(std::uint64_t) + 1);
  std::memcpy(words.get(), bytes.data(), bytes.size());
  *copy = words;
  return {reinterpret_cast<const std::byte*>(words.get()), bytes.size()};
}

MessageKind kind_of(const flatbuf::Message& message, const char* where) {
  switch (message.header_type()) {
    case flatbuf::MessageHeader::Schema: return MessageKind::kSchema;
    case flatbuf::MessageHeader::DictionaryBatch: return MessageKind::kDictionaryBatch;
    case flatbuf::MessageHeader::RecordBatch: return MessageKind::kRecordBatch;
    case flatbuf::MessageHeader::Tensor: return MessageKind::kTensor;
    case flatbuf::MessageHeader::SparseTensor: return MessageKind::kSparseTensor;
    case flatbuf::MessageHeader::NONE: throw InvalidDataError(std::string(where) + ": the message has no header");
  }
  throw UnsupportedTypeError(std::string(where) + ": message header number " +
                             std::to_string(static_cast<int>(message.header_type())) + " isn't known to this version");
}

Message Message::parse(ByteSpan metadata, const Limits& limits, const char* where) {
  Message out;
  const auto* root = verified_root<flatbuf::Message>(aligned(metadata, limits, &out.copy_), limits, where);
  check_version(root->version(), where);
  out.kind_ = kind_of(*root, where);
  if (out.kind_ == MessageKind::kSparseTensor) {
    throw UnsupportedTypeError(std::string(where) +
                               ": SparseTensor messages aren't supported; send a dense tensor or a table");
  }
  if (root->header() == nullptr) throw InvalidDataError(std::string(where) + ": the message's header is absent");
  if (root->body_length() < 0) {
    throw InvalidDataError(std::string(where) + ": the body's length is " + std::to_string(root->body_length()));
  }
  if (out.kind_ == MessageKind::kSchema && root->body_length() != 0) {
    throw InvalidDataError(std::string(where) + ": a schema message must have no body, but this one has " +
                           std::to_string(root->body_length()) + " bytes");
  }
  if (out.kind_ == MessageKind::kDictionaryBatch && root->header_as_DictionaryBatch()->id() < 0) {
    throw InvalidDataError(std::string(where) + ": dictionary id " +
                           std::to_string(root->header_as_DictionaryBatch()->id()) + " is negative");
  }
  out.root_ = root;
  out.where_ = where;
  out.limits_ = limits;
  out.body_length_ = root->body_length();
  out.is_v4_ = root->version() == flatbuf::MetadataVersion::V4;
  return out;
}

std::shared_ptr<const array::Schema> Message::schema() const {
  if (kind_ != MessageKind::kSchema) throw InvalidArgumentError(std::string(where_) + ": not a schema message");
  return read_schema(*static_cast<const flatbuf::Message*>(root_)->header_as_Schema(), limits_, where_);
}

SchemaInfo Message::schema_info() const {
  if (kind_ != MessageKind::kSchema) throw InvalidArgumentError(std::string(where_) + ": not a schema message");
  return read_schema_info(*static_cast<const flatbuf::Message*>(root_)->header_as_Schema(), limits_, where_);
}

array::Metadata Message::custom_metadata() const {
  return read_metadata(static_cast<const flatbuf::Message*>(root_)->custom_metadata(), limits_, where_);
}

std::int64_t Message::dictionary_id() const {
  if (kind_ != MessageKind::kDictionaryBatch) {
    throw InvalidArgumentError(std::string(where_) + ": not a dictionary batch");
  }
  return static_cast<const flatbuf::Message*>(root_)->header_as_DictionaryBatch()->id();
}

}  // namespace crossdock::ipc
