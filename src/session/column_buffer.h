#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "device/region.h"

namespace crossdock::session {

/// Reads a buffer of a published batch on the host. Memory is read where it lies; a file by its descriptor, in pieces,
/// because a read of its mapping would end the process if the file is truncated meanwhile. One thread at a time.
class ColumnBuffer {
 public:
  /// The most bytes of one read().
  static constexpr std::size_t kMostRead = 1 << 16;

  /// An absent buffer.
  ColumnBuffer() = default;
  /// `size` bytes at `offset` of a region, which must hold them.
  ColumnBuffer(std::shared_ptr<const device::Region> region, std::uint64_t offset, std::uint64_t size);

  std::uint64_t size() const noexcept { return size_; }
  /// Returns the address of `n` bytes from `at` on, at most kMostRead. Valid until the next call. Throws
  /// InvalidDataError if the buffer doesn't hold them, FileChangedError.
  const std::byte* read(std::uint64_t at, std::size_t n);

 private:
  std::shared_ptr<const device::Region> region_;
  std::uint64_t offset_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t piece_at_ = 0;
  std::vector<std::byte> piece_;  // of a file, from `piece_at_` on
};

}  // namespace crossdock::session
