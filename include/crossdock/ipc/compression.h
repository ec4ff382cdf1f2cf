#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/ipc/metadata.h"

namespace crossdock::ipc {

/// Runs `work(0)`, `work(1)`, ... at the same time, `work(0)` on the caller's thread, and returns when each has
/// returned. How many is its choice: at least 1, at most `most`. `work` doesn't throw. This layer starts no threads:
/// who has some lends them so (session/parallel.h).
using Parallel = std::function<void(int most, const std::function<void(int worker)>& work)>;

/// Bodies whose buffers are compressed (Message.fbs, BodyCompression): LZ4_FRAME and ZSTD. Keep one: it keeps the
/// codecs' contexts, and memory that bodies freed. One thread at a time; the bodies may be dropped on any.
class CROSSDOCK_EXPORT Decompressor {
 public:
  explicit Decompressor(const Limits& limits = {}, Parallel parallel = {});
  ~Decompressor();
  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;

  /// The buffers of `body` as they were before compression, in `*views`: one 64-aligned allocation for all that were
  /// compressed, and views of `body` for those that were stored raw at an 8-aligned address. Returns what keeps them
  /// alive: the allocation, `body_owner`, or both. Without an owner the body is taken to be short-lived, and nothing
  /// views it. `*header` came from Message::batch with `schema` and the same body
  /// (exactly header->body_length bytes, else InvalidArgumentError); afterwards it is a header of an uncompressed body:
  /// its lengths are those of the views, and the checks that Message::batch couldn't make of them are made.
  ///
  /// Sizes are bounded before memory is taken, by the length before each buffer: over Limits::max_decompressed_bytes in
  /// all, or more than its codec could make of so few bytes, is an InvalidDataError; so is a buffer that is not exactly
  /// one frame of that length. What a frame itself claims is never trusted. Bodies of 1 MiB and more are spread over
  /// several threads, if there are any. `where` begins errors. On a throw `*header` and `*views` are unspecified.
  std::shared_ptr<const void> decompress(const array::Schema& schema, ByteSpan body,
                                         std::shared_ptr<const void> body_owner, const char* where, BatchHeader* header,
                                         std::vector<array::BufferView>* views);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A body in the order of its bytes, not gathered yet: pieces of the batch's own buffers, of what was compressed, and
/// of padding.
struct CompressedBody {
  BodyLayout layout;             ///< For Encoder::record_batch and dictionary_batch.
  std::vector<ByteSpan> pieces;  ///< layout.body_length bytes in all.
};

/// Makes such bodies. Keep one: its memory is reused. One thread at a time.
class CROSSDOCK_EXPORT Compressor {
 public:
  /// `level` as the codec's library counts it; std::nullopt: its default for columns (LZ4 0, ZSTD 1). Throws
  /// InvalidArgumentError for a level that the codec lacks, and for Codec::kNone.
  explicit Compressor(Codec codec, std::optional<int> level = std::nullopt, Parallel parallel = {});
  ~Compressor();
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;

  /// Compresses each buffer by itself; one that wouldn't get smaller is stored raw, which its length says (-1). The
  /// result is valid until the next call, and as long as the batch lives. Throws InvalidArgumentError if the batch
  /// isn't host_readable().
  const CompressedBody& compress(const array::RecordBatch& batch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::ipc
