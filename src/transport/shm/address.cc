#include "address.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "crossdock/core/error.h"
#include "stale.h"

namespace crossdock::transport::shm {

namespace {

constexpr std::size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr int kBacklog = 128;
constexpr int kMaxPicks = 10000;
constexpr int kLockAttempts = 100;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd make_socket(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_errno(errno, "making a socket for shm:" + path);
  return socket;
}

/// A folder that this user alone can write to, so that nobody can put anything in our sockets' places.
bool usable_folder(const char* path) {
  struct stat status {};
  return path != nullptr && path[0] == '/' && ::stat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & 022) == 0 && ::access(path, W_OK | X_OK) == 0;
}

}  // namespace

std::string absolute_socket_path(const std::string& path) {
  if (path.find('\0') != std::string::npos || path.starts_with('@')) {
    throw UriError("shm:" + std::string(path.c_str()) +
                   " names an abstract socket, which no file permission protects: give a path in the file system" +
                   (path.starts_with('@') ? " (./" + std::string(path.c_str()) + " for a file of this name)" : ""));
  }
  std::string absolute = path;
  if (!path.starts_with('/')) {
    std::array<char, 4096> folder{};
    if (::getcwd(folder.data(), folder.size()) == nullptr) {
      throw_errno(errno, "making shm:" + path + " absolute: asking for the current folder");
    }
    absolute = std::string(folder.data()) + (std::strcmp(folder.data(), "/") == 0 ? "" : "/") + path;
  }
  if (absolute.size() > kMaxPath) {
    throw UriError("shm:" + absolute + " has a path of " + std::to_string(absolute.size()) +
                   " bytes, and the system's limit for sockets is " + std::to_string(kMaxPath) +
                   ": choose a shorter one");
  }
  return absolute;
}

bool user_allowed(std::uint32_t uid, const ShmOptions& options) {
  return options.any_user || uid == 0 || uid == ::geteuid() ||
         std::find(options.other_users.begin(), options.other_users.end(), uid) != options.other_users.end();
}

SocketFile::SocketFile(const std::string& path, const ShmOptions& options)
    : for_others_(options.any_user || !options.other_users.empty()) {
  try {
    if (path.empty()) {
      pick_path();
    } else {
      open_at(absolute_socket_path(path), true);
    }
  } catch (...) {
    remove_files();
    throw;
  }
}

SocketFile::~SocketFile() {
  if (!fork_.in_child()) remove_files();
}

void SocketFile::pick_path() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string folder;
  // Other users can't reach $XDG_RUNTIME_DIR.
  if (!for_others_ && usable_folder(runtime)) {
    folder = runtime;
    remove_dead_servers(folder);
  } else {
    remove_dead_folders("/tmp");
    std::string made = "/tmp/crossdock-XXXXXX";
    if (::mkdtemp(made.data()) == nullptr) throw_errno(errno, "making a folder for a socket under /tmp");
    own_folder_ = std::move(made);
    folder = own_folder_;
    if (for_others_ && ::chmod(folder.c_str(), 0711) != 0) throw_errno(errno, "letting other users reach " + folder);
  }
  const std::string stem = folder + "/crossdock-" + std::to_string(::getpid()) + "-";
  for (int n = 0; n < kMaxPicks; ++n) {
    if (open_at(absolute_socket_path(stem + std::to_string(n) + ".sock"), false)) return;
  }
  throw ResourceError("no free name for a socket: " + stem + "*.sock are all in use");
}

/// False: a live server is there, and `must` is false.
bool SocketFile::open_at(const std::string& path, bool must) {
  if (!take_lock(path, must)) return false;
  remove_stale(path);
  bind_and_listen(path);
  return true;
}

bool SocketFile::take_lock(const std::string& path, bool must) {
  std::string lock_path = path + ".lock";
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!lock) throw_errno(errno, "opening the lock file " + lock_path);
    struct stat held {};
    if (::fstat(lock.get(), &held) != 0) throw_errno(errno, "inspecting the lock file " + lock_path);
    if (!S_ISREG(held.st_mode))
      throw UriError(lock_path + " is no regular file; it was left alone: choose another path");
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw_errno(errno, "locking " + lock_path);
      if (errno == EINTR) continue;
      if (!must) return false;
      throw ConnectionError("a live server, or a child that was forked from one, holds shm:" + path +
                            ": close it, or choose another path");
    }
    // Whoever held it before may have removed the file between our two calls: then what we hold is no lock any more.
    if (still_at(lock, lock_path)) {
      lock_ = std::move(lock);
      lock_path_ = std::move(lock_path);
      return true;
    }
  }
  throw ConnectionError("the lock file " + lock_path + " keeps changing: servers are fighting for shm:" + path);
}

/// With the lock in hand, whatever socket is left at `path` belongs to no server of ours; but it may be another
/// program's.
void SocketFile::remove_stale(const std::string& path) const {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    throw_errno(errno, "inspecting " + path);
  }
  if (!S_ISSOCK(status.st_mode)) {
    throw UriError(path + " exists and is no socket; it was left alone: choose another path");
  }
  const UniqueFd probe = make_socket(path);
  const sockaddr_un address = address_of(path);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != ECONNREFUSED) {
    throw ConnectionError("another program, or a child that was forked from a server, listens at shm:" + path +
                          ": close it, or choose another path");
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno(errno, "removing the stale socket " + path);
}

void SocketFile::bind_and_listen(const std::string& path) {
  socket_ = make_socket(path);
  const std::string doing = "listening at shm:" + path;
  // A socket's file gets the mode of the socket itself, so it is never there with a wider one. The umask, which belongs
  // to the whole process, stays alone.
  if (::fchmod(socket_.get(), 0600) != 0) throw_errno(errno, doing + ": setting its mode");
  const sockaddr_un address = address_of(path);
  std::string bound = path;  // before there is a file that must not be forgotten
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw_errno(errno, doing);
  path_ = std::move(bound);
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) throw_errno(errno, doing + ": inspecting it");
  device_ = status.st_dev;
  inode_ = status.st_ino;
  if (for_others_) widen_mode(path);
  if (::listen(socket_.get(), kBacklog) != 0) throw_errno(errno, doing);
}

void SocketFile::widen_mode(const std::string& path) const {
  // By descriptor: in a folder that others write to, the path may name a link to something else by now.
  const UniqueFd file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) throw_errno(errno, "opening " + path);
  if (!S_ISSOCK(status.st_mode) || status.st_dev != device_ || status.st_ino != inode_) {
    throw ConnectionError(path +
                          " was replaced by somebody while it was made: choose a folder that only you can write to");
  }
  const std::string by_descriptor = "/proc/self/fd/" + std::to_string(file.get());
  if (::chmod(by_descriptor.c_str(), 0666) != 0) throw_errno(errno, "letting other users connect to " + path);
}

void SocketFile::remove_files() noexcept {
  struct stat status {};
  if (!path_.empty() && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  if (!lock_path_.empty()) ::unlink(lock_path_.c_str());
  if (!own_folder_.empty()) ::rmdir(own_folder_.c_str());
}

}  // namespace crossdock::transport::shm
