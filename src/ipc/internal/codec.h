#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/bytes.h"
#include "ipc/metadata.h"

/// Wrappers of the codecs' libraries, which are used in codec.cc only.
namespace crossdock::ipc {

/// Size of the little-endian length before each compressed buffer, and the length that marks bytes stored raw.
inline constexpr std::int64_t kLengthPrefix = 8;
inline constexpr std::int64_t kStoredRaw = -1;

const char* codec_name(Codec codec) noexcept;

/// Returns the most bytes that `compressed` bytes of the codec can decompress to.
std::int64_t most_decompressed(Codec codec, std::int64_t compressed) noexcept;

/// Decompression contexts of one thread, made when first used.
class BufferDecoder {
 public:
  BufferDecoder();
  ~BufferDecoder();
  BufferDecoder(BufferDecoder&&) noexcept;
  /// Fills `to` from exactly one buffer's bytes. Returns null on success, else the error text, which has static
  /// lifetime.
  const char* decode(Codec codec, ByteSpan from, MutableByteSpan to) noexcept;

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

/// Compression contexts of one thread, made when first used.
class BufferEncoder {
 public:
  BufferEncoder();
  ~BufferEncoder();
  BufferEncoder(BufferEncoder&&) noexcept;
  /// Returns the size of the memory that encode() needs: at least as much as it can write.
  static std::size_t bound(Codec codec, std::size_t size) noexcept;
  /// Returns the number of bytes written; 0 if it couldn't compress (the caller then stores the buffer raw).
  std::size_t encode(Codec codec, int level, ByteSpan from, MutableByteSpan to) noexcept;

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

struct Levels {
  int lowest;
  int highest;
  int usual;
};
Levels levels_of(Codec codec) noexcept;

}  // namespace crossdock::ipc
