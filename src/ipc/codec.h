#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "crossdock/core/bytes.h"
#include "crossdock/ipc/metadata.h"

/// The codecs' libraries are seen in codec.cc only.
namespace crossdock::ipc {

/// The length that stands before each compressed buffer, little-endian, and what it is where the bytes are stored raw.
inline constexpr std::int64_t kLengthPrefix = 8;
inline constexpr std::int64_t kStoredRaw = -1;

const char* codec_name(Codec codec) noexcept;

/// The most bytes that `compressed` bytes of the codec can stand for.
std::int64_t most_decompressed(Codec codec, std::int64_t compressed) noexcept;

/// Decompression contexts of one thread, made when first used.
class BufferDecoder {
 public:
  BufferDecoder();
  ~BufferDecoder();
  BufferDecoder(BufferDecoder&&) noexcept;
  /// Fills `to` from exactly one buffer's bytes. Null on success, else what is wrong, in words that live for ever.
  const char* decode(Codec codec, ByteSpan from, MutableByteSpan to) noexcept;

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

/// The same for compression.
class BufferEncoder {
 public:
  BufferEncoder();
  ~BufferEncoder();
  BufferEncoder(BufferEncoder&&) noexcept;
  /// Bytes that encode() asks for: at least as many as it can write.
  static std::size_t bound(Codec codec, std::size_t size) noexcept;
  /// Returns how many bytes it wrote; 0 if it couldn't (the caller stores the buffer raw).
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
