#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Decompresses bodies whose buffers are compressed (Message.fbs, BodyCompression): LZ4_FRAME and ZSTD. Reuse one
/// object: it keeps the codecs' contexts, and memory that bodies freed. One thread at a time; the bodies may be dropped
/// on any thread.
class Decompressor {
 public:
  explicit Decompressor(const Limits& limits = {}, Parallel parallel = {});
  ~Decompressor();
  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;

  /// Decompresses the buffers of `body` and sets `*views` to the result: one 64-aligned allocation for all buffers that
  /// were compressed, and views of `body` for those that were stored raw at an 8-aligned address.
  ///
  /// Returns the owner that keeps them alive: the allocation, `body_owner`, or both. Without `body_owner` the body is
  /// assumed to be short-lived, and no view points into it. `*header` came from Message::batch with `schema` and the
  /// same body (exactly header->body_length bytes, else InvalidArgumentError). Afterwards it describes an uncompressed
  /// body: its lengths are those of the views, and they have passed the checks that Message::batch couldn't make.
  ///
  /// Sizes are checked before memory is allocated, by the length before each buffer. Throws InvalidDataError if their
  /// sum is over Limits::max_decompressed_bytes, if one is more than its codec can make of so few bytes, and for a
  /// buffer that isn't exactly one frame of that length. The size that a frame itself claims is never trusted. Bodies
  /// of 1 MiB and more are spread over several threads, if there are any. Errors begin with `where`. On a throw
  /// `*header` and `*views` are unspecified.
  std::shared_ptr<const void> decompress(const array::Schema& schema, ByteSpan body,
                                         std::shared_ptr<const void> body_owner, const char* where, BatchHeader* header,
                                         std::vector<array::BufferView>* views);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A body in the order of its bytes, not gathered yet: pieces of the batch's own buffers, of compressed data, and of
/// padding.
struct CompressedBody {
  BodyLayout layout;             ///< For Encoder::record_batch and dictionary_batch.
  std::vector<ByteSpan> pieces;  ///< layout.body_length bytes in all.
};

/// Makes compressed bodies. Reuse one object, so that its memory is reused. One thread at a time.
class Compressor {
 public:
  /// `level` is as in the codec's library; std::nullopt is its default for columns (LZ4 0, ZSTD 1). Throws
  /// InvalidArgumentError for a level that the codec doesn't have, and for Codec::kNone.
  explicit Compressor(Codec codec, std::optional<int> level = std::nullopt, Parallel parallel = {});
  ~Compressor();
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;

  /// Compresses each buffer separately. A buffer that wouldn't get smaller is stored raw, with -1 as its length. The
  /// result is valid until the next call, and as long as the batch lives. Throws InvalidArgumentError if the batch
  /// isn't host_readable().
  const CompressedBody& compress(const array::RecordBatch& batch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::ipc
