#include "core/release.h"

#include <sys/mman.h>

#include <chrono>
#include <new>
#include <utility>

#include "core/destroyer.h"

namespace crossdock {
namespace {

// Passing memory to the thread costs about as much as unmapping some dozen pages.
constexpr std::uint64_t kLarge = 256 << 10;
// The time that the thread stays without work.
constexpr std::chrono::milliseconds kIdle{50};

struct Unmap {
  std::uint64_t bytes = 0;
  void operator()(const std::byte* start) const noexcept { ::munmap(const_cast<std::byte*>(start), bytes); }
};

struct Memory {
  UniqueFd fd;
  std::unique_ptr<const std::byte, Unmap> mapping{};
  std::shared_ptr<void> owner{};
  std::unique_ptr<Memory> next{};
};

Destroyer<Memory>& destroyer() {
  static auto* const made = new Destroyer<Memory>(kIdle);
  return *made;
}

/// Destroys `what` on the thread. Where that can't be, `what` or its copy is destroyed here, as it goes out of scope.
void release(Memory what, std::uint64_t size) noexcept {
  std::unique_ptr<Memory> memory(size >= kLarge ? new (std::nothrow) Memory : nullptr);
  if (!memory || !destroyer().usable()) return;
  *memory = std::move(what);
  destroyer().add(std::move(memory));
}

}  // namespace

void release_memory(const std::byte* start, std::uint64_t bytes, UniqueFd fd, std::uint64_t size) noexcept {
  release({.fd = std::move(fd), .mapping = {start, Unmap{bytes}}}, size);
}

void release_memory(std::shared_ptr<void> memory, std::uint64_t size) noexcept {
  release({.fd = {}, .owner = std::move(memory)}, size);
}

bool wait_for_released() noexcept { return destroyer().usable() && destroyer().wait(); }

}  // namespace crossdock
