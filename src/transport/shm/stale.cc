#include "stale.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <exception>

#include "entries.h"

namespace crossdock::transport::shm {

namespace {

constexpr std::string_view kPrefix = "crossdock-";
constexpr std::string_view kSocket = ".sock";
constexpr std::string_view kLock = ".lock";

std::string path_in(const std::string& folder, std::string_view name) { return folder + "/" + std::string(name); }

/// `path` is the path of a socket. A live server holds the lock as long as the socket exists.
bool remove_if_dead(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const std::string lock_path = path + std::string(kLock);
  const UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return false;
  // The server may have removed the lock file and made another between the two calls: then this descriptor's lock has
  // no effect any more.
  if (!still_at(lock, lock_path)) return false;
  ::unlink(path.c_str());
  ::unlink(lock_path.c_str());
  return true;
}

bool own_folder(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & 022) == 0;
}

}  // namespace

bool still_at(const UniqueFd& file, const std::string& path) noexcept {
  struct stat open {};
  struct stat there {};
  return ::fstat(file.get(), &open) == 0 && ::lstat(path.c_str(), &there) == 0 && there.st_dev == open.st_dev &&
         there.st_ino == open.st_ino;
}

bool remove_dead_servers(const std::string& folder, std::string_view prefix) noexcept {
  bool removed = false;
  try {
    for_each_entry(folder, [&](std::string_view name) {
      if (name.starts_with(prefix) && name.ends_with(kSocket)) removed |= remove_if_dead(path_in(folder, name));
    });
  } catch (const std::exception&) {
    // Out of memory: the files can be removed later.
  }
  return removed;
}

void remove_dead_folders(const std::string& parent) noexcept {
  try {
    for_each_entry(parent, [&](std::string_view name) {
      if (!name.starts_with(kPrefix)) return;
      const std::string path = path_in(parent, name);
      if (own_folder(path) && remove_dead_servers(path, kPrefix)) ::rmdir(path.c_str());
    });
  } catch (const std::exception&) {
    // As above.
  }
}

}  // namespace crossdock::transport::shm
