#pragma once

#include <cstdint>
#include <string>

#include "crossdock/core/export.h"
#include "crossdock/core/unique_fd.h"

/// The system calls behind memory that is handed over (regions, rings), in one place. Each function retries calls that
/// a signal interrupted, and throws crossdock errors. `name` is the memory's name, for errors. Thread-safe.
namespace crossdock::device::memfd {

/// The seals of memory that no process can change any more, and of memory that only its first mapping can write.
CROSSDOCK_EXPORT extern const int kFrozenSeals;
CROSSDOCK_EXPORT extern const int kRecycledSeals;

/// Returns the machine's page size in bytes.
CROSSDOCK_EXPORT std::uint64_t page_size() noexcept;

/// Makes an empty, sealable, close-on-exec memfd; not executable if the kernel supports that. `name` may be shortened.
CROSSDOCK_EXPORT UniqueFd create(const std::string& name);

/// Returns a read-only descriptor of the same file. A read-only shared mapping of a read-write descriptor still counts
/// as writable. So map this descriptor while the file is sealed against writing, and pass this one on.
CROSSDOCK_EXPORT UniqueFd reopen_read_only(const UniqueFd& fd, const std::string& name);

/// Sets the file's size. Throws ResourceError, also if the process's file size limit (RLIMIT_FSIZE) is too small:
/// exceeding that limit would kill the process with SIGXFSZ.
CROSSDOCK_EXPORT void resize(const UniqueFd& fd, std::uint64_t size, const std::string& name);
CROSSDOCK_EXPORT void check_size_limit(std::uint64_t size, const std::string& name);

/// Allocates memory for every page in the `size` bytes from `offset` on. Keeps written bytes unchanged.
CROSSDOCK_EXPORT void fill_holes(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size, const std::string& name);
/// Returns true if every page of the file's first `size` bytes has memory.
CROSSDOCK_EXPORT bool fully_backed(const UniqueFd& fd, std::uint64_t size, const std::string& name);

/// Adds seals. Throws SystemError, which says what to do, if a writable mapping is left somewhere.
CROSSDOCK_EXPORT void seal(const UniqueFd& fd, int seals, const std::string& name);

/// Returns why a descriptor from another process can't be relied on: it is no memfd, isn't of ordinary pages, lacks one
/// of `seals`, doesn't have exactly `size` bytes, or has holes. Empty if it can be relied on. Throws only if it can't
/// be inspected.
CROSSDOCK_EXPORT std::string fault_of(const UniqueFd& fd, int seals, std::uint64_t size, const std::string& name);

}  // namespace crossdock::device::memfd
