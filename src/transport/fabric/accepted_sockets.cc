#include "accepted_sockets.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>

namespace crossdock::transport::fabric {
namespace {

/// Returns the inode of a TCP socket that is connected, or was, and has this address here; nothing for anything else.
/// The descriptor may be anybody's, and be closed by another thread meanwhile: this only asks what it is.
std::optional<ino_t> accepted_at(int descriptor, const SocketAddress& at) noexcept {
  struct stat file {};
  if (::fstat(descriptor, &file) != 0 || !S_ISSOCK(file.st_mode)) return std::nullopt;
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &value, &size) != 0 || value != IPPROTO_TCP) return {};
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) != 0 || value != 0) return {};
  SocketAddress here;
  here.size = sizeof here.storage;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&here.storage), &here.size) != 0) return std::nullopt;
  if (here.storage.ss_family != at.storage.ss_family || port_of(here) != port_of(at)) return std::nullopt;
  return is_wildcard(at) || same_host(here, at) ? std::optional(file.st_ino) : std::nullopt;
}

}  // namespace

AcceptedSockets::AcceptedSockets(const SocketAddress& at) noexcept {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  if (folder == nullptr) return;
  try {
    while (const dirent* const entry = ::readdir(folder.get())) {
      if (entry->d_name[0] == '.') continue;
      const int descriptor = std::atoi(entry->d_name);
      if (const auto inode = accepted_at(descriptor, at)) sockets_.push_back({descriptor, *inode});
    }
  } catch (const std::exception&) {
    // Without memory for the rest, they stay.
  }
}

void AcceptedSockets::close_left() noexcept {
  for (const Socket& socket : sockets_) {
    struct stat file {};
    if (::fstat(socket.descriptor, &file) == 0 && S_ISSOCK(file.st_mode) && file.st_ino == socket.inode) {
      ::close(socket.descriptor);
    }
  }
  sockets_.clear();
}

}  // namespace crossdock::transport::fabric
