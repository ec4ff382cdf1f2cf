#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "context.h"
#include "inbox.h"
#include "transport/net/handshake.h"

/// Parts of the handshake that both ends share.
namespace crossdock::transport::ucx {

inline constexpr std::string_view kScheme = "ucx";
inline constexpr net::HandshakeNames kNames = {
    .options = "UcxOptions", .client_role = "crossdock ucx 1 client", .server_role = "crossdock ucx 1 server"};
/// The features that both ends offer in a handshake. There are no checksums: UCX's messages have none of ours.
inline constexpr std::uint64_t kOwnFeatures =
    net::kFeatureErrorMessages | net::kFeatureCountedLeases | net::kFeatureCancel | net::kFeaturePieces;

inline constexpr Ways kWays = Way::kRead | Way::kMessage;  ///< Of this transport.

/// Throws InvalidArgumentError for options that can't work.
void check_options(const UcxOptions& options);
/// Returns the options of a context for clients.
UcxOptions client_options(UcxOptions options);
/// Returns what one end knows of a peer strictly as specified, which tells nothing of itself. `reads`: bodies may come
/// by address.
Introduction introduce_as_specified(const UcxOptions& options, std::uint64_t want_data,
                                    std::optional<std::uint64_t> free_data, ChannelRole role, bool reads,
                                    const std::string& where);
/// What is accepted from a peer after the handshake. `max_message` is the limit that it was told.
ReceiveLimits limits_for(const UcxOptions& options, std::uint64_t max_message);
/// The same, of a peer strictly as specified.
ReceiveLimits limits_as_specified(const UcxOptions& options, std::uint64_t max_message);

}  // namespace crossdock::transport::ucx
