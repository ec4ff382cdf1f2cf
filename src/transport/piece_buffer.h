#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/bytes.h"
#include "core/unique_fd.h"

namespace crossdock::transport {

/// Memory for a copy of a piece of a body whose own memory may become unreadable: that of a file that another process
/// truncates. The system makes the copy, so that truncation is reported as an error instead of raising SIGBUS. A
/// checksum of the copy is valid for the bytes that are sent. Uses a descriptor. Use it from one thread at a time.
class PieceBuffer {
 public:
  /// Makes memory for `size` bytes. Throws ResourceError.
  explicit PieceBuffer(std::size_t size);
  ~PieceBuffer();
  PieceBuffer(const PieceBuffer&) = delete;
  PieceBuffer& operator=(const PieceBuffer&) = delete;

  std::size_t size() const noexcept { return size_; }
  /// The bytes of the last fill().
  ByteSpan content() const noexcept { return {start_, content_}; }
  /// Copies `parts` one after the other, at most size() bytes, and replaces the old content. Returns false if a part
  /// isn't readable any more. Changes `parts`. Throws ResourceError (no memory).
  bool fill(std::span<iovec> parts);

 private:
  const std::size_t size_;
  UniqueFd fd_;  // of the memory; used to write into it
  const std::byte* start_ = nullptr;
  std::size_t content_ = 0;
};

/// Returns a copy of a whole body of `size` bytes. Throws FileChangedError if a part isn't readable any more,
/// ResourceError.
std::unique_ptr<PieceBuffer> copy_of(std::span<const ByteSpan> parts, std::uint64_t size);

}  // namespace crossdock::transport
