#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "crossdock/core/fork.h"
#include "crossdock/core/unique_fd.h"
#include "crossdock/transport/shm.h"
#include "socket_path.h"

namespace crossdock::transport::shm {

/// Whether a peer with this user id may be at the other end: ourselves, root (which may do anything to us anyway), and
/// those that the options name.
bool user_allowed(std::uint32_t uid, const ShmOptions& options);

/// A bound and listening socket in the file system, with the lock that says that its server lives. Destroying it
/// removes both files, and the folder of names, or the one that was made for them, if it is empty then; in a forked
/// child it only closes the descriptors.
///
/// The lock is flock() on PATH.lock, held for the socket's whole life and removed while held. A forked child holds it
/// too, until it exits or drops its copy.
class SocketFile {
 public:
  /// As shm_listen() says.
  SocketFile(const std::string& address, const ShmOptions& options);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  /// Of what clients connect to, without parameters.
  const std::string& uri() const noexcept { return uri_; }
  const std::string& path() const noexcept { return path_; }
  int descriptor() const noexcept { return socket_.get(); }

 private:
  void pick();
  static bool has_user_folder();
  void make_folder();
  bool open_at(const SocketPath& chosen, bool must);
  bool take_lock(const SocketPath& chosen, bool must);
  void remove_stale(const std::string& path) const;
  void bind_and_listen(const std::string& path);
  void widen_mode(const std::string& path) const;
  void remove_files() noexcept;

  const ForkGuard fork_;
  const bool for_others_;
  std::string uri_;
  std::string path_;       // empty until bound
  std::string lock_path_;  // empty until locked
  std::string folder_;     // of names, or made here; else empty
  UniqueFd socket_;
  UniqueFd lock_;
  dev_t device_ = 0;  // of the socket file
  ino_t inode_ = 0;
};

}  // namespace crossdock::transport::shm
