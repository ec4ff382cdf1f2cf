#pragma once

#include <vector>

#include "ipc/file_writer.h"

namespace crossdock::ipc::testing {

/// Keeps what is written.
class MemorySink final : public Sink {
 public:
  void write(std::span<const ByteSpan> pieces) override {
    for (const ByteSpan piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  std::vector<std::byte> bytes;
};

inline std::vector<std::byte> write_all(const std::vector<array::RecordBatch>& batches, FileWriterOptions options) {
  MemorySink sink;
  FileWriter writer(&sink, batches.front().schema, std::move(options));
  for (const array::RecordBatch& batch : batches) writer.write(batch);
  writer.finish();
  return std::move(sink.bytes);
}

}  // namespace crossdock::ipc::testing
