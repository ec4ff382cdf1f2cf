#pragma once

#include <utility>

#include "core/unique_fd.h"
#include "settings.h"
#include "transport/net/stream_connection.h"

namespace crossdock::transport::tcp {

/// Either end after the handshake.
class TcpConnection final : public net::StreamConnection {
 public:
  TcpConnection(UniqueFd socket, const Introduction& introduction, const TcpOptions& options)
      : StreamConnection(std::move(socket), introduction, stream_limits(options), kNames) {}
};

}  // namespace crossdock::transport::tcp
