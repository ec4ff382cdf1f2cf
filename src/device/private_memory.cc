#include "device/private_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/unique_fd.h"
#include "device/internal/listed_mappings.h"
#include "device/memfd.h"

namespace crossdock::device {

PrivateMemory::~PrivateMemory() {
  for (const void* start : starts_) listed::remove(start);
}

void PrivateMemory::add(const void* pointer, std::uint64_t size) {
  if (size == 0 || in_private_memory(pointer, size)) return;
  starts_.push_back(pointer);
  listed::add_own(pointer, size);
}

bool pages_written(const void* pointer, std::uint64_t size) noexcept {
  // Of each page the kernel says whether it is the file's. See Documentation/admin-guide/mm/pagemap.rst.
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  constexpr std::uint64_t kSwapped = std::uint64_t{1} << 62;
  constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;
  if (size == 0) return false;
  const UniqueFd pages(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pages) return true;
  const std::uint64_t page = memfd::page_size();
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const std::uint64_t end = (at + size - 1) / page + 1;
  std::array<std::uint64_t, 2048> entries{};
  for (std::uint64_t next = at / page; next < end;) {
    const std::size_t wanted = std::min<std::uint64_t>(entries.size(), end - next) * sizeof(entries[0]);
    const ssize_t got = ::pread(pages.get(), entries.data(), wanted, static_cast<off_t>(next * sizeof(entries[0])));
    if (got < 0 && errno == EINTR) continue;
    if (got < static_cast<ssize_t>(sizeof(entries[0]))) return true;
    const std::size_t n = static_cast<std::size_t>(got) / sizeof(entries[0]);
    for (std::size_t i = 0; i < n; ++i) {
      if ((entries[i] & (kPresent | kSwapped)) != 0 && (entries[i] & kOfFile) == 0) return true;
    }
    next += n;
  }
  return false;
}

}  // namespace crossdock::device
