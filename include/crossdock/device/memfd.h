#pragma once

#include <cstdint>
#include <string>

#include "crossdock/core/export.h"
#include "crossdock/core/unique_fd.h"

/// The system calls behind memory that is handed over (regions, rings), in one place: each retries what a signal
/// interrupted and throws crossdock errors. `name` is the memory's, for errors. Thread-safe.
namespace crossdock::device::memfd {

/// Seals of memory that nobody can change any more, and of memory whose first mapping alone can write.
CROSSDOCK_EXPORT extern const int kFrozenSeals;
CROSSDOCK_EXPORT extern const int kRecycledSeals;

/// The machine's page size in bytes.
CROSSDOCK_EXPORT std::uint64_t page_size() noexcept;

/// An empty, sealable, close-on-exec memfd, not executable where the kernel can say so. `name` may be cut off.
CROSSDOCK_EXPORT UniqueFd create(const std::string& name);

/// A read-only descriptor of the same file. A read-only shared mapping of a read-write descriptor still counts as a
/// writable one, so this is what can be mapped while the file is sealed against writing, and what is handed on.
CROSSDOCK_EXPORT UniqueFd reopen_read_only(const UniqueFd& fd, const std::string& name);

/// Sets the file's size. Throws ResourceError, also where the process's file size limit (RLIMIT_FSIZE) is too small:
/// running into that limit would kill the process with SIGXFSZ.
CROSSDOCK_EXPORT void resize(const UniqueFd& fd, std::uint64_t size, const std::string& name);
CROSSDOCK_EXPORT void check_size_limit(std::uint64_t size, const std::string& name);

/// Gives memory to every page from `offset` on, `size` bytes long; leaves what was written as it is.
CROSSDOCK_EXPORT void fill_holes(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size, const std::string& name);
/// True if memory stands behind every page of the file's first `size` bytes.
CROSSDOCK_EXPORT bool fully_backed(const UniqueFd& fd, std::uint64_t size, const std::string& name);

/// Adds seals. Throws SystemError that says what to do where a writable mapping is left somewhere.
CROSSDOCK_EXPORT void seal(const UniqueFd& fd, int seals, const std::string& name);

/// Why a descriptor from elsewhere can't be relied on: it is no memfd, not of ordinary pages, lacks one of `seals`, has
/// other than `size` bytes, or holes. Empty if it can. Throws only if it can't be looked at.
CROSSDOCK_EXPORT std::string fault_of(const UniqueFd& fd, int seals, std::uint64_t size, const std::string& name);

}  // namespace crossdock::device::memfd
