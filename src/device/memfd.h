#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/unique_fd.h"

/// The system calls behind memory that is handed over (regions, rings), in one place. Each function retries calls that
/// a signal interrupted, and throws crossdock errors. `name` is the memory's name, for errors. Thread-safe.
namespace crossdock::device::memfd {

/// The seals of memory that no process can change any more, and of memory that only its first mapping can write.
extern const int kFrozenSeals;
extern const int kRecycledSeals;

/// Returns the machine's page size in bytes.
std::uint64_t page_size() noexcept;

/// As mremap(), which sets errno, by the system call itself: UCX replaces the C library's function in a process that
/// uses it, by one that doesn't pass on the last argument. The mapping then goes to any address, over what is there.
/// So UCX isn't told either: before pages are replaced, call madvise() with MADV_DONTNEED; unmap by munmap().
void* remap(void* old_address, std::size_t old_size, std::size_t new_size, int flags,
            void* new_address = nullptr) noexcept;

/// Makes an empty, sealable, close-on-exec memfd; not executable if the kernel supports that. `name` may be shortened.
UniqueFd create(const std::string& name);

/// Returns a read-only descriptor of the same file. A read-only shared mapping of a read-write descriptor still counts
/// as writable. So map this descriptor while the file is sealed against writing, and pass this one on.
UniqueFd reopen_read_only(const UniqueFd& fd, const std::string& name);
/// Returns a descriptor of the same file with which it can be allocated, and not more than its seals permit.
UniqueFd reopen_writable(const UniqueFd& fd, const std::string& name);

/// Sets the file's size. Throws ResourceError, also if the process's file size limit (RLIMIT_FSIZE) is too small:
/// exceeding that limit would kill the process with SIGXFSZ.
void resize(const UniqueFd& fd, std::uint64_t size, const std::string& name);
void check_size_limit(std::uint64_t size, const std::string& name);

/// Allocates memory for every page in the `size` bytes from `offset` on. Keeps written bytes unchanged.
void fill_holes(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size, const std::string& name);
/// Returns true if every page of the file's first `size` bytes has memory.
bool fully_backed(const UniqueFd& fd, std::uint64_t size, const std::string& name);

/// Returns how many bytes this thread has read in fault_of() to find holes, ever. It reads only where the system
/// doesn't tell of blocks beyond a file's end (before Linux 6.5), and a file that can't get holes any more only once.
std::uint64_t bytes_searched() noexcept;

/// Returns the state of an open file. Errors begin with `where`.
struct stat inspect(int fd, const std::string& where);

/// Adds seals. Throws SystemError, which says what to do, if a writable mapping is left somewhere.
void seal(const UniqueFd& fd, int seals, const std::string& name);

/// Returns why a descriptor from another process can't be relied on: it is no memfd, isn't of ordinary pages, lacks one
/// of `seals`, doesn't have exactly `size` bytes, or has holes. Empty if it can be relied on. Throws only if it can't
/// be inspected.
std::string fault_of(const UniqueFd& fd, int seals, std::uint64_t size, const std::string& name);

}  // namespace crossdock::device::memfd
