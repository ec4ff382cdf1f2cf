#include "ipc/internal/codec.h"

#include <lz4frame.h>
#include <zstd.h>

#include <limits>

namespace crossdock::ipc {
namespace {

// Each byte lengthens an LZ4 match by at most 255 bytes. A Zstandard block of at most 128 KiB takes at least 3 bytes of
// header and one of content.
constexpr std::int64_t kMostPerLz4Byte = 255;
constexpr std::int64_t kMostPerZstdByte = 32 << 10;
constexpr std::int64_t kSlack = 1 << 10;

constexpr const char* kNoMemory = "there is no memory for the codec";
constexpr const char* kTooLong = "it decompresses to more bytes than its length prefix says";
constexpr const char* kTooShort = "it decompresses to fewer bytes than its length prefix says";

const char* decode_lz4(LZ4F_dctx* context, ByteSpan from, MutableByteSpan to) noexcept {
  LZ4F_decompressOptions_t options{};
  options.stableDst = 1;  // lets LZ4 read back from `to` instead of keeping a copy of its output
  std::size_t read = 0;
  std::size_t written = 0;
  while (true) {
    std::size_t n_to = to.size() - written;
    std::size_t n_from = from.size() - read;
    const std::size_t hint =
        LZ4F_decompress(context, to.data() + written, &n_to, from.data() + read, &n_from, &options);
    if (LZ4F_isError(hint) != 0) {
      LZ4F_resetDecompressionContext(context);
      return LZ4F_getErrorName(hint);
    }
    read += n_from;
    written += n_to;
    if (hint == 0) break;  // end of the frame: the context can decode another one
    if (n_to == 0 && n_from == 0) {
      LZ4F_resetDecompressionContext(context);
      return read == from.size() ? "its frame is truncated" : kTooLong;
    }
  }
  if (read != from.size()) return "bytes follow its frame";
  return written == to.size() ? nullptr : kTooShort;
}

const char* decode_zstd(ZSTD_DCtx* context, ByteSpan from, MutableByteSpan to) noexcept {
  const std::size_t written = ZSTD_decompressDCtx(context, to.data(), to.size(), from.data(), from.size());
  if (ZSTD_isError(written) != 0) return ZSTD_getErrorName(written);
  return written == to.size() ? nullptr : kTooShort;
}

LZ4F_preferences_t lz4_preferences(std::size_t size, int level) noexcept {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.contentSize = size;
  preferences.compressionLevel = level;
  return preferences;
}

}  // namespace

const char* codec_name(Codec codec) noexcept {
  switch (codec) {
    case Codec::kNone: return "none";
    case Codec::kLz4Frame: return "LZ4_FRAME";
    case Codec::kZstd: return "ZSTD";
  }
  return "an unknown codec";
}

std::int64_t most_decompressed(Codec codec, std::int64_t compressed) noexcept {
  const std::int64_t per_byte = codec == Codec::kLz4Frame ? kMostPerLz4Byte : kMostPerZstdByte;
  std::int64_t most = 0;
  if (!checked_multiply(compressed, per_byte, &most) || !checked_add(most, kSlack, &most)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return most;
}

void FreeContext::operator()(LZ4F_dctx_s* context) const noexcept { LZ4F_freeDecompressionContext(context); }
void FreeContext::operator()(ZSTD_CCtx_s* context) const noexcept { ZSTD_freeCCtx(context); }
void FreeContext::operator()(ZSTD_DCtx_s* context) const noexcept { ZSTD_freeDCtx(context); }

const char* BufferDecoder::decode(Codec codec, ByteSpan from, MutableByteSpan to) noexcept {
  if (codec == Codec::kLz4Frame) {
    if (!lz4_) {
      LZ4F_dctx* made = nullptr;
      if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION)) != 0) return kNoMemory;
      lz4_.reset(made);
    }
    return decode_lz4(lz4_.get(), from, to);
  }
  if (!zstd_) zstd_.reset(ZSTD_createDCtx());
  if (!zstd_) return kNoMemory;
  return decode_zstd(zstd_.get(), from, to);
}

std::size_t BufferEncoder::bound(Codec codec, std::size_t size) noexcept {
  if (codec == Codec::kZstd) return ZSTD_compressBound(size);
  const LZ4F_preferences_t preferences = lz4_preferences(size, 0);
  return LZ4F_compressFrameBound(size, &preferences);
}

std::size_t BufferEncoder::encode(Codec codec, int level, ByteSpan from, MutableByteSpan to) noexcept {
  if (codec == Codec::kLz4Frame) {
    const LZ4F_preferences_t preferences = lz4_preferences(from.size(), level);
    const std::size_t written = LZ4F_compressFrame(to.data(), to.size(), from.data(), from.size(), &preferences);
    return LZ4F_isError(written) != 0 ? 0 : written;
  }
  if (!zstd_) zstd_.reset(ZSTD_createCCtx());
  if (!zstd_) return 0;
  const std::size_t written = ZSTD_compressCCtx(zstd_.get(), to.data(), to.size(), from.data(), from.size(), level);
  return ZSTD_isError(written) != 0 ? 0 : written;
}

Levels levels_of(Codec codec) noexcept {
  // LZ4: levels below 0 are acceleration. Zstandard: the usual level for columns is 1, as in other writers of Arrow.
  constexpr int kMostLz4Acceleration = 65'536;
  if (codec == Codec::kZstd) return {ZSTD_minCLevel(), ZSTD_maxCLevel(), 1};
  return {-kMostLz4Acceleration, LZ4F_compressionLevel_max(), 0};
}

}  // namespace crossdock::ipc
