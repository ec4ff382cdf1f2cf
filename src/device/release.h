#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "crossdock/core/unique_fd.h"

/// Memory is freed off the caller's path: to unmap a large mapping, and to free a memory file's pages with its
/// last descriptor, takes the kernel milliseconds.
namespace crossdock::device {

/// Unmaps `bytes` bytes from `start` on (null: nothing), and closes `fd`. Of 256 KiB or more, counted in `size`, a
/// thread of the library's does it: it starts when there is something to do, and ends soon after. In a forked child,
/// and where no thread or no memory can be had, it is done here and now. Thread-safe.
void release_memory(const std::byte* start, std::uint64_t bytes, UniqueFd fd, std::uint64_t size) noexcept;

/// The same for `memory` of any other kind: drops it. Whatever that calls must not wait.
void release_memory(std::shared_ptr<void> memory, std::uint64_t size) noexcept;

/// Waits until that thread has done what it had to. True if there was anything: what ran out may be there again.
bool wait_for_released() noexcept;

}  // namespace crossdock::device
