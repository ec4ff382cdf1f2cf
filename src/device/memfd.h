#pragma once

#include <cstdint>
#include <string>

#include "crossdock/core/unique_fd.h"

/// The system calls behind regions, in one place: each retries what a signal interrupted and throws crossdock errors.
namespace crossdock::device::memfd {

/// Seals of a region that nobody can change any more, and of one whose first mapping alone can write.
extern const int kFrozenSeals;
extern const int kRecycledSeals;

/// The machine's page size in bytes.
std::uint64_t page_size() noexcept;

/// An empty, sealable, close-on-exec memfd, not executable where the kernel can say so. `name` may be cut off.
UniqueFd create(const std::string& name);

/// A read-only descriptor of the same file. A read-only shared mapping of a read-write descriptor still counts as a
/// writable one, so this is what can be mapped while the file is sealed against writing, and what is handed on.
UniqueFd reopen_read_only(const UniqueFd& fd, const std::string& name);

/// Sets the file's size. Throws ResourceError, also where the process's file size limit (RLIMIT_FSIZE) is too small:
/// running into that limit would kill the process with SIGXFSZ.
void resize(const UniqueFd& fd, std::uint64_t size, const std::string& name);
void check_size_limit(std::uint64_t size, const std::string& name);

/// Gives memory to every page from `offset` on, `size` bytes long; leaves what was written as it is.
void fill_holes(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size, const std::string& name);
/// True if memory stands behind every page of the file's first `size` bytes.
bool fully_backed(const UniqueFd& fd, std::uint64_t size, const std::string& name);

/// Adds seals. Throws SystemError that says what to do where a writable mapping is left somewhere.
void seal(const UniqueFd& fd, int seals, const std::string& name);

}  // namespace crossdock::device::memfd
