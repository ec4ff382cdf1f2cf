#pragma once

#include <string>

#include "socket.h"
#include "transport/shm.h"

/// Parts of the handshake that both ends share.
namespace crossdock::transport::shm {

inline constexpr Ways kWays = Way::kMap | Way::kMessage;  ///< Of this transport.

/// The features that this process offers in a handshake.
std::uint64_t own_features() noexcept;

/// Throws InvalidArgumentError for options that can't work.
void check_options(const ShmOptions& options);

/// Returns the name of a device whose memory can be handed from process to process; nothing for null and for others.
std::optional<DeviceName> name_of(const std::shared_ptr<device::Context>& device);

/// "shm:PATH (process 12 of user 0)".
std::string name_peer(const std::string& path, const Credentials& peer);

}  // namespace crossdock::transport::shm
