#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/bytes.h"
#include "core/memory_limit.h"
#include "crossdock/core/error.h"
#include "device/memfd.h"
#include "device/region.h"
#include "device/region_address.h"

namespace crossdock::device {

namespace {

/// The most bytes that one call writes: the kernel writes less than 2 GiB per call, and a signal interrupts a shorter
/// call sooner.
///
/// Why pwrite: a cold copy of 64 MiB took 2.2 times as long as a memcpy into pre-faulted memory, a copy of 1 GiB 4.8
/// times (the same, within the noise, for pieces from 256 KiB to 1 GiB). A call of fallocate first gains nothing. To
/// map the file and fault it in zeroes each page before it is overwritten: it took 4.1 and 12 times as long with
/// MAP_POPULATE, 3.6 and 8.5 times with MADV_POPULATE_WRITE by 2 MiB, and 2.3 and 7.5 times with two threads. Two
/// threads of pwrite wait for each other.
constexpr std::uint64_t kPiece = std::uint64_t{64} << 20;

void write_all(const UniqueFd& fd, ByteSpan bytes, std::uint64_t offset, const std::string& name) {
  for (std::uint64_t done = 0; done < bytes.size();) {
    const std::uint64_t piece = std::min<std::uint64_t>(kPiece, bytes.size() - done);
    const ssize_t written = ::pwrite(fd.get(), bytes.data() + done, piece, static_cast<off_t>(offset + done));
    if (written > 0) {
      done += static_cast<std::uint64_t>(written);
    } else if (written == 0 || errno != EINTR) {
      throw_errno(written == 0 ? ENOSPC : errno,
                  "copying " + std::to_string(bytes.size()) + " bytes into the shared memory \"" + name + "\"");
    }
  }
}

}  // namespace

RegionWriter::RegionWriter(const char* name) : fd_(memfd::create(name)), name_(name) {}

std::uint64_t RegionWriter::append(ByteSpan bytes) {
  made_in_.check("this RegionWriter");
  constexpr std::uint64_t kLimit = std::uint64_t{1} << kOffsetBits;
  const std::uint64_t offset = align_up(end_, kBufferAlignment);
  if (bytes.size() > kLimit - offset) {
    throw ResourceError("the shared memory \"" + name_ + "\" would exceed 2^48 bytes; publish the table in parts");
  }
  if (!fd_) fd_ = memfd::create(name_);
  memfd::check_size_limit(offset + bytes.size(), name_);
  check_memory_room(bytes.size(), "a copy into shared memory");
  try {
    write_all(fd_, bytes, offset, name_);
  } catch (...) {
    // Removes the bytes that were written: they must not become the padding of the next piece.
    while (::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0 && errno == EINTR) {
    }
    throw;
  }
  end_ = offset + bytes.size();
  return offset;
}

std::shared_ptr<const Region> RegionWriter::freeze() {
  made_in_.check("this RegionWriter");
  if (!fd_) fd_ = memfd::create(name_);
  const std::uint64_t size = align_up(end_, kBufferAlignment);
  memfd::resize(fd_, size, name_);
  // Every page has a written byte, since padding is shorter than a page. Only if nothing was written is there none.
  memfd::fill_holes(fd_, size - 1, 1, name_);
  std::shared_ptr<Region> region(new Region);
  region->kind_ = RegionKind::kFrozen;
  region->size_ = size;
  region->name_ = name_;
  region->fd_ = memfd::reopen_read_only(fd_, name_);
  memfd::seal(fd_, memfd::kFrozenSeals, name_);
  fd_.reset();
  end_ = kBufferAlignment;
  return region;
}

}  // namespace crossdock::device
