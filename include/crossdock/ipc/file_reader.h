#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/stream.h"
#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/ipc/compression.h"
#include "crossdock/ipc/container.h"

namespace crossdock::ipc {

/// A whole file that can be read where it lies.
struct FileBytes {
  std::string name;                   ///< For messages.
  ByteSpan bytes;                     ///< The bodies are views of them.
  std::shared_ptr<const void> owner;  ///< Keeps `bytes`; every batch holds it.
  /// Where the metadata is read from, of the same size. Null: from `bytes`.
  std::shared_ptr<const ContainerSource> metadata{};
  /// Throws FileChangedError if `bytes` are no longer what they were. Called before every batch; empty: never.
  std::function<void()> check_unchanged{};
};

struct FileReaderOptions {
  Limits limits{};
  array::Validation validation = array::Validation::kStructure;
  Parallel parallel{};  ///< For compressed bodies.
};

/// Reads an Arrow IPC file or stream file. Uncompressed buffers that lie at multiples of 8 bytes are views of the file:
/// nothing is copied. Others (the format asks writers for that alignment, hostile and odd ones keep to nothing) are
/// copied, one allocation for each batch; compressed ones are decompressed, see Decompressor; what a big-endian writer
/// wrote is swapped, which copies all numbers of more than one byte. Every batch is checked as FileReaderOptions say.
/// Batches outlive the reader. One thread at a time.
class CROSSDOCK_EXPORT FileReader final : public array::BatchStream {
 public:
  /// Reads all metadata, so that a truncated or malformed file is found out here: throws as read_container does.
  explicit FileReader(FileBytes file, FileReaderOptions options = {});
  ~FileReader() override;
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::shared_ptr<const array::Schema>& schema() const override;
  /// The batches in their order. Throws InvalidDataError, UnsupportedTypeError, FileChangedError, ResourceError; after
  /// a throw it is over.
  std::optional<array::RecordBatch> next() override;

  /// Whether it has a footer: then batches can be had in any order.
  bool has_footer() const noexcept;
  std::int64_t num_batches() const noexcept;
  std::int64_t num_rows() const noexcept;
  /// The footer's custom metadata (of a stream file: the schema message's); each batch has its own.
  const array::Metadata& custom_metadata() const noexcept;
  /// Batch `index`, counted from 0; next() isn't moved by it. Throws InvalidArgumentError for an index out of range;
  /// UnsupportedError for a stream file, whose dictionaries depend on the order; and as next().
  array::RecordBatch batch(std::int64_t index);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::ipc
