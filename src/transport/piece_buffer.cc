#include "transport/piece_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <system_error>
#include <vector>

#include "crossdock/core/error.h"
#include "device/memfd.h"

namespace crossdock::transport {
namespace {

constexpr const char* kName = "crossdock-piece";

/// Drops the first `bytes` of `parts`.
std::span<iovec> without_first(std::span<iovec> parts, std::size_t bytes) noexcept {
  while (!parts.empty() && bytes >= parts.front().iov_len) {
    bytes -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (bytes > 0) {
    parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + bytes;
    parts.front().iov_len -= bytes;
  }
  return parts;
}

}  // namespace

PieceBuffer::PieceBuffer(std::size_t size) : size_(size), fd_(device::memfd::create(kName)) {
  device::memfd::resize(fd_, size, kName);
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (start == MAP_FAILED) {
    throw ResourceError("mapping " + std::to_string(size) +
                        " bytes for a piece of a body: " + std::generic_category().message(errno));
  }
  start_ = static_cast<const std::byte*>(start);
}

PieceBuffer::~PieceBuffer() { ::munmap(const_cast<std::byte*>(start_), size_); }

bool PieceBuffer::fill(std::span<iovec> parts) {
  content_ = 0;
  while (!(parts = without_first(parts, 0)).empty()) {
    const ssize_t copied =
        ::pwritev(fd_.get(), parts.data(), static_cast<int>(std::min<std::size_t>(parts.size(), IOV_MAX)),
                  static_cast<off_t>(content_));
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0 && errno == EFAULT) return false;
    if (copied < 0) throw_errno(errno, "copying a piece of a body");
    content_ += static_cast<std::size_t>(copied);
    parts = without_first(parts, static_cast<std::size_t>(copied));
  }
  return true;
}

std::unique_ptr<PieceBuffer> copy_of(std::span<const ByteSpan> parts, std::uint64_t size) {
  auto copy = std::make_unique<PieceBuffer>(static_cast<std::size_t>(size));
  std::vector<iovec> sources;
  sources.reserve(parts.size());
  for (const ByteSpan part : parts) sources.push_back({const_cast<std::byte*>(part.data()), part.size()});
  if (!copy->fill(sources)) {
    throw FileChangedError(
        "a body can't be read any more: its file was truncated; replace files as a whole, or serve them with "
        "stable=\"snapshot\"");
  }
  return copy;
}

}  // namespace crossdock::transport
