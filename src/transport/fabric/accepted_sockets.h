#pragma once

#include <sys/types.h>

#include <vector>

#include "transport/internal/socket_address.h"

namespace crossdock::transport::fabric {

/// The sockets of this process that were accepted at an endpoint's port. libfabric 1.17.0 never closes those over which
/// no byte has come when the endpoint is closed: a peer that was killed while it connected leaves one, and so does
/// everybody else who reaches the port. Use it from one thread at a time, around the closing.
class AcceptedSockets {
 public:
  /// Notes the sockets that were accepted at this address. None where the system has no /proc.
  explicit AcceptedSockets(const SocketAddress& at) noexcept;
  /// Closes those that are left, once the endpoint is closed. What has taken their descriptors meanwhile stays.
  void close_left() noexcept;

 private:
  struct Socket {
    int descriptor;
    ino_t inode;
  };
  std::vector<Socket> sockets_;
};

}  // namespace crossdock::transport::fabric
