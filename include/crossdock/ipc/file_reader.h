#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/stream.h"
#include "crossdock/core/export.h"
#include "crossdock/core/function.h"
#include "crossdock/core/impl_ptr.h"
#include "crossdock/ipc/options.h"

namespace crossdock::ipc {

class ContainerSource;

/// A whole file that can be read in place.
struct FileBytes {
  std::string name;                   ///< For messages.
  std::span<const std::byte> bytes;   ///< Bodies are views of these.
  std::shared_ptr<const void> owner;  ///< Keeps `bytes` alive; every batch holds it.
  /// The source of the metadata, of the same size. Null: metadata is read from `bytes`.
  std::shared_ptr<const ContainerSource> metadata{};
  /// Throws FileChangedError if `bytes` have changed. Called before every batch; if empty, never called.
  std::function<void()> check_unchanged{};
};

/// Options of a FileReader.
struct FileReaderOptions {
  Limits limits{};                                               ///< What the file's messages may request.
  array::Validation validation = array::Validation::kStructure;  ///< Of each batch; dictionaries once.
  Parallel parallel{};                                           ///< For compressed bodies.
};

/// Reads an Arrow IPC file or stream file.
///
/// Uncompressed buffers at multiples of 8 bytes are views of the file: nothing is copied. Buffers at other addresses
/// are copied, with one allocation for each batch: the format asks writers for that alignment, but not all writers keep
/// to it. Compressed buffers are decompressed. Data of a big-endian writer is swapped, which copies all numbers of more
/// than one byte. Every batch is checked as FileReaderOptions say. Batches outlive the reader. One thread at a time.
class CROSSDOCK_EXPORT FileReader final : public array::BatchStream {
 public:
  /// Reads all metadata, so that a truncated or malformed file is detected here. Throws InvalidDataError (not
  /// an Arrow file, truncated, malformed), UnsupportedTypeError (a type, codec or metadata version that isn't known),
  /// and the errors of FileBytes::metadata.
  explicit FileReader(FileBytes file, FileReaderOptions options = {});
  ~FileReader() override;
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  /// The schema of all batches. Valid as long as the reader.
  const std::shared_ptr<const array::Schema>& schema() const override;
  /// Returns the batches in their order. Throws InvalidDataError, UnsupportedTypeError, FileChangedError,
  /// ResourceError. After a throw the stream is over.
  std::optional<array::RecordBatch> next() override;

  /// True if the file has a footer: then batches can be read in any order.
  bool has_footer() const noexcept;
  /// The number of batches, also of a stream file; it doesn't change with next().
  std::int64_t num_batches() const noexcept;
  /// The rows of all batches together.
  std::int64_t num_rows() const noexcept;
  /// Returns the footer's custom metadata; for a stream file, the schema message's. Each batch has its own.
  const array::Metadata& custom_metadata() const noexcept;
  /// Returns batch `index`, counted from 0. Doesn't change the position of next(). Throws InvalidArgumentError for an
  /// index out of range; UnsupportedError for a stream file, whose dictionaries depend on the order; otherwise as
  /// next().
  array::RecordBatch batch(std::int64_t index);

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::ipc
