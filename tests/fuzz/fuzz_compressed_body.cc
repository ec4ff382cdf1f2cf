#include <memory>
#include <vector>

#include "fuzz.h"
#include "ipc/compression.h"

/// The metadata of a schema and of a batch, their lengths before them, and the batch's body.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  fuzz::Input input(fuzz::bytes(data, size));
  ipc::Limits limits;
  limits.max_decompressed_bytes = 1 << 20;
  try {
    const ByteSpan schema_bytes = input.take(input.number<std::uint16_t>());
    const auto schema = ipc::Message::parse(schema_bytes, limits, "the schema").schema();
    const ByteSpan batch_bytes = input.take(input.number<std::uint16_t>());
    const auto message = ipc::Message::parse(batch_bytes, limits, "the batch");
    if (message.kind() != ipc::MessageKind::kRecordBatch) return 0;
    ipc::BatchHeader header;
    message.batch(*schema, &header);
    if (header.codec == ipc::Codec::kNone) return 0;
    const ByteSpan body = input.rest();
    if (static_cast<std::uint64_t>(header.body_length) != body.size()) return 0;
    ipc::Decompressor decompressor(limits);
    std::vector<array::BufferView> views;
    const auto owner = decompressor.decompress(*schema, body, nullptr, "the body", &header, &views);
    std::int64_t total = 0;
    unsigned sum = 0;
    for (const array::BufferView& view : views) {
      total += view.size;
      const auto* const from = static_cast<const std::uint8_t*>(static_cast<const void*>(view.data));
      for (std::int64_t i = 0; i < view.size; ++i) sum += from[i];  // each byte is there to be read
    }
    fuzz::require(total <= limits.max_decompressed_bytes && sum != 1u << 31);
  } catch (const Error&) {
  }
  return 0;
}
