#include "ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "crossdock/core/error.h"
#include "device/memfd.h"

namespace crossdock::transport::shm {

namespace {

constexpr const char* kName = "crossdock-ring";

/// Bytes that one step allocates and maps.
constexpr std::uint64_t kStep = 128 << 10;

/// Seals of memory that another process writes.
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

bool allowed(std::uint64_t ring_bytes) noexcept {
  return std::has_single_bit(ring_bytes) && ring_bytes >= kMinRingBytes && ring_bytes <= kMaxRingBytes;
}

/// Maps a ring, and excludes it from forked children: an end of a connection must not be used by two processes.
/// `flags`: MAP_POPULATE or 0.
void* map(int fd, std::size_t size, int protection, int flags, const std::string& where) {
  void* start = ::mmap(nullptr, size, protection, MAP_SHARED | flags, fd, 0);
  if (start == MAP_FAILED) {
    throw ResourceError(where + ": mapping a ring of " + std::to_string(size) +
                        " bytes: " + std::generic_category().message(errno));
  }
  if (::madvise(start, size, MADV_DONTFORK) != 0) {
    const int error = errno;
    ::munmap(start, size);
    throw_errno(error, where + ": keeping a ring from forked children");
  }
  return start;
}

constexpr std::size_t size_of(std::uint64_t ring_bytes) noexcept { return sizeof(RingHeader) + ring_bytes; }

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw ProtocolError(where + " passed a ring that can't be trusted: " + why);
}

}  // namespace

void check_ring_bytes(std::uint64_t ring_bytes) {
  if (allowed(ring_bytes)) return;
  throw InvalidArgumentError("ShmOptions::ring_bytes is " + std::to_string(ring_bytes) +
                             "; it must be a power of two from " + std::to_string(kMinRingBytes) + " to " +
                             std::to_string(kMaxRingBytes));
}

RingMemory::RingMemory(RingMemory&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), ring_bytes_(other.ring_bytes_), fork_(other.fork_) {}

RingMemory& RingMemory::operator=(RingMemory&& other) noexcept {
  std::swap(start_, other.start_);
  std::swap(ring_bytes_, other.ring_bytes_);
  std::swap(fork_, other.fork_);
  return *this;
}

RingMemory::~RingMemory() {
  // A forked child never had this mapping, and another mapping may be in its place by now.
  if (start_ != nullptr && !fork_.in_child()) ::munmap(start_, size_of(ring_bytes_));
}

RingMaker::RingMaker(End end, std::uint64_t ring_bytes) : end_(end) {
  check_ring_bytes(ring_bytes);
  file_ = device::memfd::create(kName);
  device::memfd::resize(file_, size_of(ring_bytes), kName);
  const int protection = end == End::kServer ? PROT_READ | PROT_WRITE : PROT_READ;
  memory_ = RingMemory(map(file_.get(), size_of(ring_bytes), protection, 0, "making a ring"), ring_bytes);
}

bool RingMaker::step() {
  const std::uint64_t size = size_of(memory_.ring_bytes());
  if (filled_ == size) return true;
  const std::uint64_t end = std::min(filled_ + kStep, size);
  // Allocates all pages now: writing to a page for which no memory is left would kill the process.
  device::memfd::fill_holes(file_, filled_, end - filled_, kName);
  const auto* const bytes = static_cast<const volatile std::byte*>(memory_.start_);
  for (std::uint64_t at = filled_; at < end; at += device::memfd::page_size()) static_cast<void>(bytes[at]);
  if (end == size) {
    if (end_ == End::kServer) new (memory_.start_) RingHeader;
    device::memfd::seal(file_, end_ == End::kServer ? device::memfd::kRecycledSeals : kSizeSeals, kName);
  }
  filled_ = end;
  return filled_ == size;
}

RingMemory RingMaker::take(UniqueFd* fd) {
  *fd = std::move(file_);
  return std::move(memory_);
}

void RingMemory::check(const UniqueFd& fd, int seals, std::uint64_t ring_bytes, const std::string& where) {
  if (!allowed(ring_bytes)) refuse(where, "its announced size is " + std::to_string(ring_bytes) + " bytes");
  const std::string fault = device::memfd::fault_of(fd, seals, size_of(ring_bytes), where);
  if (!fault.empty()) refuse(where, fault);
}

RingMemory RingMemory::adopt(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where) {
  check(fd, device::memfd::kRecycledSeals, ring_bytes, where);
  return {map(fd.get(), size_of(ring_bytes), PROT_READ, MAP_POPULATE, where), ring_bytes};
}

RingMemory RingMemory::adopt_own(const UniqueFd& fd, std::uint64_t ring_bytes, const std::string& where) {
  check(fd, kSizeSeals, ring_bytes, where);
  RingMemory memory(map(fd.get(), size_of(ring_bytes), PROT_READ | PROT_WRITE, MAP_POPULATE, where), ring_bytes);
  new (memory.start_) RingHeader;
  return memory;
}

}  // namespace crossdock::transport::shm
