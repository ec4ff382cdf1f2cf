#include "address.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "crossdock/core/error.h"
#include "stale.h"

namespace crossdock::transport::shm {

namespace {

constexpr int kBacklog = SOMAXCONN;
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

bool for_others(const ShmOptions& options) noexcept { return options.any_user || !options.other_users.empty(); }

SocketPath read_address_for(const std::string& address, const ShmOptions& options) {
  SocketPath chosen = read_address(address);
  if (!chosen.name.empty() && for_others(options)) {
    throw UriError(chosen.uri() +
                   " is a name, which only this user's programs can reach, but other users may connect: " +
                   "give a path in a folder that they can reach, as in shm:/path/to/" + chosen.name + ".sock");
  }
  return chosen;
}

std::string folder_of(const SocketPath& chosen) { return chosen.path.substr(0, chosen.path.rfind('/')); }

/// `error`: ENOENT or ENOTDIR.
[[noreturn]] void fail_without_folder(const SocketPath& chosen, int error) {
  if (error == ENOTDIR) throw UriError("the folder of " + chosen.uri() + " is a file: choose another path");
  throw NotFoundError("the folder of " + chosen.uri() + " doesn't exist (" + folder_of(chosen) +
                      "): create it, or give a name without a slash");
}

/// Whether a folder that doesn't exist would be below /run, where /var/run leads, too.
bool is_below_run(const std::string& folder) {
  std::error_code failed;
  const std::string real = std::filesystem::weakly_canonical(folder, failed).string() + "/";
  return !failed && real.starts_with("/run/");
}

/// Returns whether a socket is at the path; false: nothing is. Throws UriError for another file.
bool is_socket(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    throw_errno(errno, "inspecting " + path);
  }
  if (!S_ISSOCK(status.st_mode)) {
    throw UriError(path + " exists, is not a socket and was not changed: choose another path");
  }
  return true;
}

}  // namespace

bool user_allowed(std::uint32_t uid, const ShmOptions& options) {
  return options.any_user || uid == 0 || uid == ::geteuid() ||
         std::find(options.other_users.begin(), options.other_users.end(), uid) != options.other_users.end();
}

void check_address_to_listen_at(const std::string& address, const ShmOptions& options) {
  if (address.empty()) return;
  const SocketPath chosen = read_address_for(address, options);
  if (!chosen.name.empty()) return check_user_folder();
  const std::string folder = folder_of(chosen) + "/";
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) {
    static_cast<void>(is_socket(chosen.path));
  } else if (errno != ENOENT && errno != ENOTDIR) {
    throw_errno(errno, "making a socket in the folder of " + chosen.uri());
  } else if (errno != ENOENT || !is_below_run(folder)) {
    fail_without_folder(chosen, errno);
  }
}

SocketFile::SocketFile(const std::string& address, const ShmOptions& options) : for_others_(for_others(options)) {
  try {
    if (address.empty()) {
      pick();
    } else {
      const SocketPath chosen = read_address_for(address, options);
      if (!chosen.name.empty()) {
        make_user_folder();
        folder_ = user_folder();
      }
      open_at(chosen, true);
    }
  } catch (...) {
    remove_files();
    throw;
  }
}

SocketFile::~SocketFile() {
  if (!fork_.in_child()) remove_files();
}

/// Picks a name that contains the process id. If there is no folder for the user's names, or other users couldn't reach
/// it, picks a path in a folder made for it.
void SocketFile::pick() {
  const bool named = !for_others_ && has_user_folder();
  if (named) {
    folder_ = user_folder();
    remove_dead_servers(folder_);
  } else {
    make_folder();
  }
  const std::string stem = "crossdock-" + std::to_string(::getpid());
  for (int n = 1; n <= kMaxPicks; ++n) {
    const std::string name = n == 1 ? stem : stem + "-" + std::to_string(n);
    if (open_at(named ? socket_of_name(name) : read_address(folder_ + "/" + name + ".sock"), false)) return;
  }
  throw ResourceError("no free name for a socket: " + folder_ + "/" + stem + "*.sock are all in use");
}

bool SocketFile::has_user_folder() {
  try {
    make_user_folder();
    return true;
  } catch (const Error&) {
    return false;  // Another user may have made this folder in /tmp: that must not prevent a server from starting.
  }
}

void SocketFile::make_folder() {
  remove_dead_folders("/tmp");
  std::string made = "/tmp/crossdock-XXXXXX";
  if (::mkdtemp(made.data()) == nullptr) throw_errno(errno, "making a folder for a socket under /tmp");
  folder_ = std::move(made);
  if (for_others_ && ::chmod(folder_.c_str(), 0711) != 0) throw_errno(errno, "letting other users reach " + folder_);
}

/// Returns false if a live server holds the address and `must` is false.
bool SocketFile::open_at(const SocketPath& chosen, bool must) {
  if (!take_lock(chosen, must)) return false;
  remove_stale(chosen.path);
  bind_and_listen(chosen.path);
  uri_ = chosen.uri();
  return true;
}

bool SocketFile::take_lock(const SocketPath& chosen, bool must) {
  std::string lock_path = chosen.path + ".lock";
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!lock && errno == ENOENT && !chosen.name.empty()) {
      make_user_folder();  // The last server in it has just removed the folder.
      continue;
    }
    if (!lock && (errno == ENOENT || errno == ENOTDIR)) fail_without_folder(chosen, errno);
    if (!lock) throw_errno(errno, "opening the lock file " + lock_path);
    struct stat held {};
    if (::fstat(lock.get(), &held) != 0) throw_errno(errno, "inspecting the lock file " + lock_path);
    if (!S_ISREG(held.st_mode))
      throw UriError(lock_path + " is not a regular file and was not changed: choose another path");
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw_errno(errno, "locking " + lock_path);
      if (errno == EINTR) continue;
      if (!must) return false;
      throw ConnectionError(chosen.uri() + " is in use by a live server, or by a child that was forked from one: " +
                            "close it, or choose another " + (chosen.name.empty() ? "path" : "name"));
    }
    // The previous holder may have removed the file between the two calls: then this descriptor's lock has no effect
    // any more.
    if (still_at(lock, lock_path)) {
      lock_ = std::move(lock);
      lock_path_ = std::move(lock_path);
      return true;
    }
  }
  throw ConnectionError("the lock file " + lock_path + " keeps changing: several servers are trying to listen at " +
                        chosen.uri());
}

/// While the lock is held, a socket left at `path` belongs to no live server of this library. But it may belong to
/// another program.
void SocketFile::remove_stale(const std::string& path) const {
  if (!is_socket(path)) return;
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
  // A socket's file gets the mode of the socket itself, so it never has a wider mode. The umask isn't changed, because
  // it belongs to the whole process.
  if (::fchmod(socket_.get(), 0600) != 0) throw_errno(errno, doing + ": setting its mode");
  const sockaddr_un address = address_of(path);
  std::string bound = path;  // copied before the file exists: afterwards nothing may fail before path_ is set
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
  // Uses a descriptor: in a folder that other users can write to, the path may name a link to another file by now.
  const UniqueFd file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) throw_errno(errno, "opening " + path);
  if (!S_ISSOCK(status.st_mode) || status.st_dev != device_ || status.st_ino != inode_) {
    throw ConnectionError(path + " was replaced while it was created: choose a folder that only you can write to");
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
  if (!folder_.empty()) ::rmdir(folder_.c_str());  // Fails if another server is in it.
}

}  // namespace crossdock::transport::shm
