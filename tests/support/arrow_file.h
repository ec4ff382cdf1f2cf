#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "crossdock/array/stream.h"
#include "ipc/metadata.h"

namespace crossdock::testing {

/// Writes an uncompressed Arrow IPC stream file: encapsulated messages, their bodies packed at 64 bytes.
inline void write_stream_file(const std::string& path, array::BatchStream& stream) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto put = [&](const void* data, std::size_t size) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  };
  const auto zeros = [&](std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) file.put('\0');
  };
  const auto message = [&](ByteSpan metadata) {
    const auto start = static_cast<std::uint64_t>(file.tellp());
    const std::uint64_t padded = align_up(start + 8 + metadata.size(), 64) - start - 8;
    const std::int32_t prefix[2] = {-1, static_cast<std::int32_t>(padded)};
    put(prefix, sizeof prefix);
    put(metadata.data(), metadata.size());
    zeros(padded - metadata.size());
  };
  ipc::Encoder encoder;
  message(encoder.schema(*stream.schema()));
  while (const auto batch = stream.next()) {
    message(encoder.record_batch(*batch));
    for (const array::BufferView& buffer : batch->buffers) {
      put(buffer.data, static_cast<std::size_t>(buffer.size));
      zeros(align_up(static_cast<std::uint64_t>(buffer.size), 64) - static_cast<std::uint64_t>(buffer.size));
    }
  }
  const std::int32_t end[2] = {-1, 0};
  put(end, sizeof end);
}

}  // namespace crossdock::testing
