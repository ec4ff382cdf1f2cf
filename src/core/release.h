#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/unique_fd.h"

/// Frees memory on another thread than the caller's. To unmap a large mapping, or to free a memory file's pages with
/// its last descriptor, takes the kernel milliseconds.
namespace crossdock {

/// Unmaps `bytes` bytes from `start` on (null: nothing), and closes `fd`. If `size` is 256 KiB or more, a thread of the
/// library does it: it starts when there is work, and ends soon after. `size` is the memory that this frees, including
/// pages of the file that aren't mapped. In a forked child, and if there is no thread or
/// no memory, the calling thread does it at once. Thread-safe.
void release_memory(const std::byte* start, std::uint64_t bytes, UniqueFd fd, std::uint64_t size) noexcept;

/// Drops `memory` of any other kind in the same way. Its deleter must not wait.
void release_memory(std::shared_ptr<void> memory, std::uint64_t size) noexcept;

/// Waits until that thread has freed all memory that was passed to it. Returns true if there was any, so that a caller
/// whose allocation failed can try again.
bool wait_for_released() noexcept;

}  // namespace crossdock
