#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/channel_role.h"
#include "transport/transport.h"

/// Parts of the handshake that the transports share. The packets of each are its own: docs/reference/protocol-shm.md
/// and docs/reference/protocol-tcp.md specify them.
namespace crossdock::transport {

/// The reason why a server rejects a client, as a number in its answer.
enum class Refusal : std::uint32_t {
  kOtherVersion = 1,  ///< No common version.
  kNotAllowed = 2,    ///< This user may not connect; or a token is needed, or it was the wrong one.
  kMalformed = 3,     ///< The client's packet violates the rules.
  kResources = 4,     ///< The server has no descriptors or memory left, or already has its maximum of clients.
  kMode = 5,          ///< The server doesn't protect connections in this way.
  kChecksums = 6,     ///< The server requires checksums; the client doesn't know them or has them turned off.
};

/// The server's rejection. The connection is closed after it.
struct Refused {
  Refusal code = Refusal::kMalformed;
  std::string reason;  ///< UTF-8, cut off at 400 bytes.
};

/// Thrown by a step of a handshake: the client is rejected, after `delay`. A delayed rejection isn't logged again.
struct Rejection : Refused {
  std::chrono::milliseconds delay{0};
};

/// Facts that one end knows after the handshake. A feature is used if both ends offer it.
struct Introduction {
  std::uint64_t own_features = 0;
  std::uint64_t peer_features = 0;
  std::uint64_t max_message = 0;  ///< Limit of this end as receiver.
  std::uint64_t peer_max_message = 0;
  std::uint64_t peer_max_body = 0;
  std::shared_ptr<device::Context> device{};  ///< ConnectOptions::device, at the client.
  bool keeps_descriptors = false;             ///< Likewise.
  Agreement agreement;  ///< The peer's name, the tags, the role and the ways; the transport adds the rest.
  bool both(std::uint64_t feature) const noexcept { return (own_features & peer_features & feature) != 0; }
};

/// Collects the facts from the first packets of both ends. `welcome` is the server's, and so one of the two. The ways
/// of `wishes` are those that both ends have.
template <typename Own, typename Peer, typename Welcome>
Introduction introduce(const Own& own, const Peer& peer, const Welcome& welcome, const ConnectOptions& wishes,
                       const std::string& where) {
  return {.own_features = own.features,
          .peer_features = peer.features,
          .max_message = own.max_message,
          .peer_max_message = peer.max_message,
          .peer_max_body = peer.max_body,
          .device = wishes.device,
          .keeps_descriptors = wishes.keeps_descriptors,
          .agreement = {.want_data = welcome.want_data,
                        .free_data = welcome.free_data,
                        .role = wishes.role,
                        .ways = wishes.ways,
                        .wants_parts = wishes.wants_parts,
                        .max_body = own.max_body,
                        .peer = where}};
}

// --- the bytes of a rejection ---

/// Appends the code, the reason's length and the reason to a packet that has its header already.
void append(const Refused& refused, std::vector<std::byte>* packet);
/// Decodes them from `packet`, whose header has `header` bytes. Returns false if the packet is too short.
[[nodiscard]] bool decode(ByteSpan packet, std::size_t header, Refused* refused);

// --- the server's checks of an opening ---

/// Throws Rejection unless both ends speak the same version.
void require_client_version(std::uint32_t client, std::uint32_t own);
/// Returns the role with the number `role`. Throws ProtocolError if there is none, if the listening end serves no such
/// clients, or if `max_message` is 0.
ChannelRole checked_role(std::uint32_t role, std::uint64_t max_message, Serves serves);

// --- the client's checks of an answer; `where` names the server in errors ---

/// Throws the error that a rejection means. `version` is the server's.
[[noreturn]] void throw_refused(const Refused& refused, const std::string& where, std::uint32_t version,
                                std::uint32_t own);
/// Throws HandshakeError unless both ends speak the same version.
void require_server_version(const std::string& where, std::uint32_t version, std::uint32_t own);

}  // namespace crossdock::transport
