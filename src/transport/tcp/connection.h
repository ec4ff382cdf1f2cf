#pragma once

#include "carrier.h"
#include "settings.h"
#include "transport/net/stream_connection.h"

namespace crossdock::transport::tcp {

/// Either end after the handshake.
class TcpConnection final : public net::StreamConnection {
 public:
  TcpConnection(const Channel& channel, const Introduction& introduction, const TcpOptions& options,
                const Carrier& carrier)
      : StreamConnection(channel.shared(), introduction, stream_limits(options), carrier.names) {}
};

}  // namespace crossdock::transport::tcp
