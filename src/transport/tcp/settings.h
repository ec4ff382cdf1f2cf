#pragma once

#include <cstdint>

#include "transport/net/records.h"
#include "transport/net/socket_options.h"
#include "transport/net/stream_connection.h"
#include "transport/net/stream_names.h"
#include "transport/tcp.h"

/// What the transport tells the parts that it shares with others, and the options behind it.
namespace crossdock::transport::tcp {

inline constexpr net::StreamNames kNames = {
    .scheme = "tcp", .options = "TcpOptions", .connection = "this tcp connection"};

/// Throws InvalidArgumentError for options that can't work.
void check_options(const TcpOptions& options);
/// The features that this end offers in a handshake.
std::uint64_t own_features(const TcpOptions& options) noexcept;
net::SocketOptions socket_options(const TcpOptions& options) noexcept;
net::StreamLimits stream_limits(const TcpOptions& options) noexcept;

}  // namespace crossdock::transport::tcp
