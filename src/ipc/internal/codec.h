#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "core/bytes.h"
#include "ipc/metadata.h"

// Of lz4frame.h and zstd.h.
struct LZ4F_dctx_s;
struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

/// Wrappers of the codecs' libraries, which are used in codec.cc only.
namespace crossdock::ipc {

/// Size of the little-endian length before each compressed buffer, and the length that marks bytes stored raw.
inline constexpr std::int64_t kLengthPrefix = 8;
inline constexpr std::int64_t kStoredRaw = -1;

const char* codec_name(Codec codec) noexcept;

/// Returns the most bytes that `compressed` bytes of the codec can decompress to.
std::int64_t most_decompressed(Codec codec, std::int64_t compressed) noexcept;

struct FreeContext {
  void operator()(LZ4F_dctx_s* context) const noexcept;
  void operator()(ZSTD_CCtx_s* context) const noexcept;
  void operator()(ZSTD_DCtx_s* context) const noexcept;
};

/// Decompression contexts of one thread, made when first used.
class BufferDecoder {
 public:
  /// Fills `to` from exactly one buffer's bytes. Returns null on success, else the error text, which has static
  /// lifetime.
  const char* decode(Codec codec, ByteSpan from, MutableByteSpan to) noexcept;

 private:
  std::unique_ptr<LZ4F_dctx_s, FreeContext> lz4_;
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> zstd_;
};

/// The compression context of one thread, made when first used.
class BufferEncoder {
 public:
  /// Returns the size of the memory that encode() needs: at least as much as it can write.
  static std::size_t bound(Codec codec, std::size_t size) noexcept;
  /// Returns the number of bytes written; 0 if it couldn't compress (the caller then stores the buffer raw).
  std::size_t encode(Codec codec, int level, ByteSpan from, MutableByteSpan to) noexcept;

 private:
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> zstd_;
};

/// Calls `work(coder, i)` for each i below `n`, each time with a coder that no other thread uses. Begins with the
/// largest, by `size_of(i)`, so that no thread still works on one at the end. Works on the calling thread alone if
/// `parallel` is null.
template <class Coder, class SizeOf, class Work>
void run_jobs(std::size_t n, std::vector<Coder>* coders, const Parallel* parallel, const SizeOf& size_of,
              const Work& work) {
  constexpr std::size_t kMostWorkers = 16;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater(), size_of);
  const std::size_t workers = std::min(n, kMostWorkers);
  if (coders->size() < workers) coders->resize(workers);
  std::atomic<std::size_t> next{0};
  const std::function<void(int)> run = [&](int worker) {
    for (std::size_t turn = next++; turn < n; turn = next++) {
      work((*coders)[static_cast<std::size_t>(worker)], order[turn]);
    }
  };
  if (parallel == nullptr || workers <= 1) return run(0);
  (*parallel)(static_cast<int>(workers), run);
}

struct Levels {
  int lowest;
  int highest;
  int usual;
};
Levels levels_of(Codec codec) noexcept;

}  // namespace crossdock::ipc
