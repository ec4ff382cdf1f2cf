#pragma once

#include <cstdint>

#include "crossdock/array/schema.h"
#include "crossdock/core/function.h"

/// Options of reading and writing Arrow IPC.
namespace crossdock::ipc {

/// Limits on the resources that a received message may take. A message over a limit throws InvalidDataError before
/// memory is allocated.
struct Limits {
  /// Levels of nesting of a schema. The default is the limit of Schema: every schema that can be published can also be
  /// read.
  std::int32_t max_depth = array::kMaxDepth;
  std::int32_t max_fields = array::kMaxFields;      ///< Of one schema, with all levels and dictionaries.
  std::int64_t max_metadata_bytes = 64ll << 20;     ///< Of one message, without its body.
  std::int64_t max_decompressed_bytes = 4ll << 30;  ///< Of all buffers of one compressed body together.
  std::int32_t max_buffers = array::kMaxBuffers;    ///< Of one batch, with variadic ones.
};

/// Compression of the buffers of a body; each is compressed separately (Message.fbs, CompressionType).
enum class Codec : std::uint8_t {
  kNone,      ///< Not compressed: readers get views of the file.
  kLz4Frame,  ///< LZ4 in its frame format: fast.
  kZstd,      ///< Zstandard: smaller.
};

/// The two forms of Arrow IPC: a file with a footer, whose batches can be read in any order, or a stream file.
enum class ContainerForm : std::uint8_t {
  kFile,    ///< With a footer. Dictionaries can't be replaced.
  kStream,  ///< One message after the other; also for pipes.
};

/// Runs `work(0)`, `work(1)`, ... at the same time, `work(0)` on the caller's thread, and returns when all have
/// returned. Chooses the number of calls: at least 1, at most `most`. `work` doesn't throw. This layer starts no
/// threads: callers that have threads provide them.
using Parallel = std::function<void(int most, const std::function<void(int worker)>& work)>;

}  // namespace crossdock::ipc
