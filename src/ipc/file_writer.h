#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "ipc/compression.h"

namespace crossdock::ipc {

/// Takes the bytes of a file in their order.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Writes all of `pieces`, one after the other; the implementation may gather them. Throws the errors of its kind of
  /// sink; the file is then unusable.
  virtual void write(std::span<const ByteSpan> pieces) = 0;
};

struct FileWriterOptions {
  ContainerForm form = ContainerForm::kFile;
  Codec codec = Codec::kNone;
  std::optional<int> level{};  ///< Level of the codec; see Compressor.
  Parallel parallel{};         ///< For compression.
  array::Metadata metadata{};  ///< The footer's custom metadata; a stream file has no place for it.
};

/// Writes Arrow IPC (V5, little-endian): encapsulated messages with the marker, all parts at multiples of 64 bytes.
///
/// Buffers go to the sink from their own memory. Only the bitmaps and offsets of slices, and compressed buffers, are
/// copied. A dictionary is written before the first batch that needs it, and again only if it changed: appended values
/// as a delta, other changes as a replacement, which the file form doesn't have. One thread at a time.
class FileWriter {
 public:
  /// Writes the head. `sink` must outlive the writer. Throws InvalidArgumentError (a level that the codec doesn't
  /// have), UnsupportedTypeError (a type that IPC can't describe), and the sink's errors.
  FileWriter(Sink* sink, std::shared_ptr<const array::Schema> schema, FileWriterOptions options = {});
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// Writes a batch. Throws InvalidDataError (an invalid batch, a batch of another schema, or a dictionary that would
  /// have to be replaced in the file form), InvalidArgumentError (memory that the host can't read), and the sink's
  /// errors. After a throw the file is unusable.
  void write(const array::RecordBatch& batch);

  /// Ends the stream and writes the footer. Without this call a file is truncated, and a stream file can't be told from
  /// one that was cut between messages. write() must not be called afterwards.
  void finish();

  std::int64_t bytes_written() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::ipc
