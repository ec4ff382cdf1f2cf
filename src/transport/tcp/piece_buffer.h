#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "crossdock/core/bytes.h"
#include "crossdock/core/unique_fd.h"

namespace crossdock::transport::tcp {

/// Memory for a piece of a body whose own memory may be gone: that of a file that somebody cuts off. The system copies
/// the piece, so that what is gone is an answer and no SIGBUS; what is computed of the copy holds for what is sent.
/// Costs a descriptor. One thread at a time.
class PieceBuffer {
 public:
  /// Takes up to `size` bytes. Throws ResourceError.
  explicit PieceBuffer(std::size_t size);
  ~PieceBuffer();
  PieceBuffer(const PieceBuffer&) = delete;
  PieceBuffer& operator=(const PieceBuffer&) = delete;

  std::size_t size() const noexcept { return size_; }
  /// What fill() copied here last.
  ByteSpan content() const noexcept { return {start_, content_}; }
  /// Copies `parts`, back to back, size() bytes at most; forgets what was here. False: some of it can't be read any
  /// more. Changes `parts`. Throws ResourceError (no memory).
  bool fill(std::span<iovec> parts);

 private:
  const std::size_t size_;
  UniqueFd fd_;  // of the memory, through which it is written
  const std::byte* start_ = nullptr;
  std::size_t content_ = 0;
};

}  // namespace crossdock::transport::tcp
