#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "crossdock/core/fork.h"
#include "crossdock/core/unique_fd.h"
#include "crossdock/transport/shm.h"

namespace crossdock::transport::shm {

/// The absolute path of a socket. Throws UriError for abstract names, embedded NULs, and paths over the system's limit.
std::string absolute_socket_path(const std::string& path);

/// Whether a peer with this user id may be at the other end: ourselves, root (which may do anything to us anyway), and
/// those that the options name.
bool user_allowed(std::uint32_t uid, const ShmOptions& options);

/// A bound and listening socket in the file system, with the lock that says that its server lives. Destroying it
/// removes both files, and the folder if it was made for them; in a forked child it only closes the descriptors.
///
/// The lock is flock() on PATH.lock, held for the socket's whole life and removed while held. A forked child holds it
/// too, until it exits or drops its copy.
class SocketFile {
 public:
  /// As shm_listen() says.
  SocketFile(const std::string& path, const ShmOptions& options);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  int descriptor() const noexcept { return socket_.get(); }

 private:
  bool open_at(const std::string& path, bool must);
  void pick_path();
  bool take_lock(const std::string& path, bool must);
  void remove_stale(const std::string& path) const;
  void bind_and_listen(const std::string& path);
  void widen_mode(const std::string& path) const;
  void remove_files() noexcept;

  const ForkGuard fork_;
  const bool for_others_;
  std::string path_;        // empty until bound
  std::string lock_path_;   // empty until locked
  std::string own_folder_;  // made here; else empty
  UniqueFd socket_;
  UniqueFd lock_;
  dev_t device_ = 0;  // of the socket file
  ino_t inode_ = 0;
};

}  // namespace crossdock::transport::shm
