#pragma once

#include <cstdint>
#include <string>

#include "transport/fabric.h"
#include "transport/internal/socket_address.h"
#include "transport/net/handshake.h"
#include "transport/net/records.h"
#include "transport/net/socket_options.h"
#include "transport/net/stream_connection.h"
#include "transport/net/stream_names.h"

/// What the transport tells the parts that it shares with others, and the options behind it.
namespace crossdock::transport::fabric {

inline constexpr net::StreamNames kNames = {
    .scheme = "fabric", .options = "FabricOptions", .connection = "this fabric connection"};
inline constexpr net::HandshakeNames kHandshakeNames = {
    .options = "FabricOptions", .client_role = "crossdock fabric 1 client", .server_role = "crossdock fabric 1 server"};
/// The features that this end offers in a handshake. There are no checksums: bodies have none of ours.
inline constexpr std::uint64_t kOwnFeatures = net::kCommonFeatures | net::kFeatureEndpoints;

/// Throws InvalidArgumentError for options that can't work.
void check_options(const FabricOptions& options);
net::SocketOptions socket_options(const FabricOptions& options) noexcept;
net::StreamLimits stream_limits(const FabricOptions& options) noexcept;
/// The ways that this end has.
Ways own_ways(const FabricOptions& options) noexcept;

/// What is shown as Agreement::carrier.
std::string carrier_of(const FabricOptions& options);
/// A tag, or a key, that nobody else can guess. Throws SystemError.
std::uint64_t random_number();

/// Returns the host's address with another port. An IPv4 address in its IPv6 form becomes an IPv4 address.
SocketAddress with_port(const SocketAddress& host, std::uint16_t port) noexcept;
inline SocketAddress without_port(const SocketAddress& host) noexcept { return with_port(host, 0); }

}  // namespace crossdock::transport::fabric
