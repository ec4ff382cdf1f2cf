#pragma once

#include <arrow_file_generated.h>
#include <arrow_message_generated.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ipc/metadata.h"

namespace crossdock::ipc::testing {

/// Writes Arrow IPC streams and files into memory, byte by byte as the format says, for the reader's tests. Bodies are
/// zeros.
class ContainerWriter {
 public:
  enum class Prefix { kMarker, kLegacy };
  explicit ContainerWriter(Prefix prefix = Prefix::kMarker) : prefix_(prefix) {}

  void text(std::string_view bytes) {
    for (const char c : bytes) out.push_back(static_cast<std::byte>(c));
  }
  void int32(std::int32_t value) {
    out.resize(out.size() + 4);
    store_le(out.data() + out.size() - 4, value);
  }
  /// An encapsulated message; its metadata is padded so that what follows is 8-aligned, as the format wants.
  flatbuf::Block message(ByteSpan metadata) {
    const auto start = static_cast<std::int64_t>(out.size());
    const Message parsed = Message::parse(metadata, {}, "written message");
    const std::size_t prefix = prefix_ == Prefix::kMarker ? 8 : 4;
    const std::size_t padded = align_up(out.size() + prefix + metadata.size(), 8) - out.size() - prefix;
    if (prefix_ == Prefix::kMarker) int32(-1);
    int32(static_cast<std::int32_t>(padded));
    out.insert(out.end(), metadata.begin(), metadata.end());
    out.resize(out.size() + padded - metadata.size());
    const auto metadata_length = static_cast<std::int32_t>(static_cast<std::int64_t>(out.size()) - start);
    out.resize(out.size() + static_cast<std::size_t>(parsed.body_length()));
    return {start, metadata_length, parsed.body_length()};
  }
  void end_of_stream() {
    if (prefix_ == Prefix::kMarker) int32(-1);
    int32(0);
  }
  void head() { text(std::string_view("ARROW1\0\0", 8)); }
  void tail(std::int32_t footer_length) {
    int32(footer_length);
    text("ARROW1");
  }
  /// The footer and the tail. `schema` is a schema message, whose table is unpacked into the footer.
  void footer(ByteSpan schema, const std::vector<flatbuf::Block>& dictionaries,
              const std::vector<flatbuf::Block>& batches,
              flatbuf::MetadataVersion version = flatbuf::MetadataVersion::V5);

  std::vector<std::byte> out;

 private:
  Prefix prefix_;
};

/// Copies fields' names, types and nullability: enough for the schemas that the container tests use (no nesting).
inline flatbuffers::Offset<flatbuf::Schema> copy_schema(flatbuffers::FlatBufferBuilder& builder, ByteSpan message) {
  const auto* from = flatbuffers::GetRoot<flatbuf::Message>(message.data())->header_as_Schema();
  std::vector<flatbuffers::Offset<flatbuf::Field>> fields;
  for (const flatbuf::Field* field : *from->fields()) {
    flatbuffers::Offset<void> type;
    if (field->type_type() == flatbuf::Type::FloatingPoint) {
      type = flatbuf::CreateFloatingPoint(builder, field->type_as_FloatingPoint()->precision()).Union();
    } else {
      type = flatbuf::CreateUtf8(builder).Union();
    }
    flatbuffers::Offset<flatbuf::DictionaryEncoding> encoding;
    if (field->dictionary()) encoding = flatbuf::CreateDictionaryEncoding(builder, field->dictionary()->id());
    fields.push_back(flatbuf::CreateField(builder, builder.CreateString(field->name()->str()), field->nullable(),
                                          field->type_type(), type, encoding));
  }
  return flatbuf::CreateSchema(builder, flatbuf::Endianness::Little, builder.CreateVector(fields));
}

inline void ContainerWriter::footer(ByteSpan schema, const std::vector<flatbuf::Block>& dictionaries,
                                    const std::vector<flatbuf::Block>& batches, flatbuf::MetadataVersion version) {
  flatbuffers::FlatBufferBuilder builder;
  const auto table = copy_schema(builder, schema);
  const auto write = [&](const std::vector<flatbuf::Block>& blocks) {
    return builder.CreateVectorOfStructs(blocks.data(), blocks.size());
  };
  const auto dictionary_blocks = write(dictionaries);
  builder.Finish(flatbuf::CreateFooter(builder, version, table, dictionary_blocks, write(batches)));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  out.insert(out.end(), bytes, bytes + builder.GetSize());
  tail(static_cast<std::int32_t>(builder.GetSize()));
}

}  // namespace crossdock::ipc::testing
