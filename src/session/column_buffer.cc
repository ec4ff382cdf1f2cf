#include "session/column_buffer.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "crossdock/core/error.h"
#include "session/file_source.h"

namespace crossdock::session {

ColumnBuffer::ColumnBuffer(std::shared_ptr<const device::Region> region, std::uint64_t offset, std::uint64_t size)
    : region_(std::move(region)), offset_(offset), size_(size) {
  if (offset > region_->size() || size > region_->size() - offset) {
    throw std::logic_error("a published buffer is outside its region");
  }
}

const std::byte* ColumnBuffer::read(std::uint64_t at, std::size_t n) {
  if (at > size_ || n > size_ - at) {
    throw InvalidDataError("an offset in a column leads behind the end of its data, which has " +
                           std::to_string(size_) + " bytes");
  }
  if (n == 0) return nullptr;
  if (region_->kind() != device::RegionKind::kFile) return region_->data() + offset_ + at;
  if (at < piece_at_ || at + n > piece_at_ + piece_.size()) {
    piece_.resize(std::min<std::uint64_t>(size_ - at, kMostRead));
    FileSource(region_, "the published file").read(static_cast<std::int64_t>(offset_ + at), piece_);
    piece_at_ = at;
  }
  return piece_.data() + (at - piece_at_);
}

}  // namespace crossdock::session
