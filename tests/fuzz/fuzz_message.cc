#include "fuzz.h"
#include "ipc/metadata.h"

/// The metadata of a schema, its length before it, and of a message of that schema.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  fuzz::Input input(fuzz::bytes(data, size));
  try {
    const ByteSpan schema_bytes = input.take(input.number<std::uint16_t>());
    const auto schema_message = ipc::Message::parse(schema_bytes, {}, "the schema");
    if (schema_message.kind() != ipc::MessageKind::kSchema) return 0;
    const auto schema = schema_message.schema();
    // A schema that is read can be written.
    ipc::Encoder encoder;
    const ByteSpan written = encoder.schema(*schema);
    fuzz::require(ipc::Message::parse(written, {}, "the schema, written").schema()->fields().size() ==
                  schema->fields().size());
    const auto message = ipc::Message::parse(input.rest(), {}, "the message");
    if (!message.has_body()) return 0;
    ipc::BatchHeader header;
    if (message.kind() == ipc::MessageKind::kDictionaryBatch) {
      const auto values = schema->find_dictionary(message.dictionary_id());
      if (values) message.batch(*values, &header);
    } else if (message.kind() == ipc::MessageKind::kRecordBatch) {
      message.batch(*schema, &header);
    }
    for (const ipc::BufferRange& buffer : header.buffers) {
      fuzz::require(buffer.offset >= 0 && buffer.length >= 0 && buffer.offset <= header.body_length - buffer.length);
    }
  } catch (const Error&) {
  }
  return 0;
}
