#pragma once

#include <memory>
#include <string>

#include "connection.h"
#include "packets.h"
#include "socket.h"

/// Parts of the handshake that both ends share, once each has received the other's first packet.
namespace crossdock::transport::shm {

/// The features that this process offers in a handshake.
std::uint64_t own_features() noexcept;

/// Facts that one end knows once both first packets have arrived.
struct Introduction {
  std::uint64_t peer_features = 0;
  std::uint64_t max_message = 0;  ///< Limit of this end as receiver.
  std::uint64_t peer_max_message = 0;
  std::uint64_t peer_max_body = 0;
  ChannelRole role = ChannelRole::kBoth;
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
  Credentials peer;
  std::string where;
};

/// Makes the connection from the facts that both ends know.
std::unique_ptr<ShmConnection> join(std::shared_ptr<ControlSocket> socket, RingMemory own, RingMemory peer,
                                    const Introduction& introduction, const ShmOptions& options);

/// Throws InvalidArgumentError for options that can't work.
void check_options(const ShmOptions& options);

/// "shm:PATH (process 12 of user 0)".
std::string name_peer(const std::string& path, const Credentials& peer);

}  // namespace crossdock::transport::shm
