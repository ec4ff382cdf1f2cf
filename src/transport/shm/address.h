#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "core/fork.h"
#include "core/unique_fd.h"
#include "socket_path.h"
#include "transport/shm.h"

namespace crossdock::transport::shm {

/// Whether a peer with this user id may be at the other end: our own user, root (which has full access to this process
/// anyway), and the users that the options name.
bool user_allowed(std::uint32_t uid, const ShmOptions& options);

/// Throws what a SocketFile would throw for this address, as far as that can be said without making a file. A folder
/// below /run may be missing: service managers make those when they start a server.
void check_address_to_listen_at(const std::string& address, const ShmOptions& options);

/// A bound and listening socket in the file system, and the lock that shows that its server lives. The destructor
/// removes both files. It also removes their folder, if that is now empty and is the folder of names or was made for
/// this socket. In a forked child it only closes the descriptors.
///
/// The lock is flock() on PATH.lock. It is held during the socket's whole life, and its file is removed while it is
/// held. A forked child holds it too, until it exits or closes its copy.
class SocketFile {
 public:
  /// Behaves as shm_listen() describes.
  SocketFile(const std::string& address, const ShmOptions& options);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  /// The URI for clients to connect to, without parameters.
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
  std::string folder_;     // the folder of names, or one that was made here; else empty
  UniqueFd socket_;
  UniqueFd lock_;
  dev_t device_ = 0;  // of the socket file
  ino_t inode_ = 0;
};

}  // namespace crossdock::transport::shm
