#include "transport/internal/handshake.h"

#include <algorithm>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::transport {
namespace {

constexpr std::size_t kMaxReason = 400;
constexpr std::size_t kCodeAndLength = 8;  // bytes

std::string versions(std::uint32_t server, std::uint32_t own) {
  return "it speaks version " + std::to_string(server) + " of the protocol, this client speaks version " +
         std::to_string(own);
}

}  // namespace

void append(const Refused& refused, std::vector<std::byte>* packet) {
  const std::string reason = bounded_utf8(refused.reason, kMaxReason);
  const std::size_t header = packet->size();
  packet->resize(header + kCodeAndLength);
  store_le(packet->data() + header, static_cast<std::uint32_t>(refused.code));
  store_le(packet->data() + header + 4, static_cast<std::uint32_t>(reason.size()));
  packet->insert(packet->end(), as_bytes(reason).begin(), as_bytes(reason).end());
}

bool decode(ByteSpan packet, std::size_t header, Refused* refused) {
  if (packet.size() < header + kCodeAndLength) return false;
  const ByteSpan rest = packet.subspan(header);
  refused->code = static_cast<Refusal>(load_le<std::uint32_t>(&rest[0]));
  const std::size_t size = std::min<std::size_t>(load_le<std::uint32_t>(&rest[4]), rest.size() - kCodeAndLength);
  // Text of another process becomes part of our errors and logs: it must not contain line breaks or escape sequences.
  refused->reason = printable(as_text(rest.subspan(kCodeAndLength, std::min(size, kMaxReason))));
  return true;
}

void require_client_version(std::uint32_t client, std::uint32_t own) {
  if (client == own) return;
  throw Rejection{{Refusal::kOtherVersion, "the client speaks version " + std::to_string(client) +
                                               ", this server version " + std::to_string(own)}};
}

ChannelRole checked_role(std::uint32_t role, std::uint64_t max_message, Serves serves) {
  if (max_message == 0) throw ProtocolError("the client's max_message is 0");
  if (role > static_cast<std::uint32_t>(ChannelRole::kMessages)) {
    throw ProtocolError("the client requests the unknown channel role " + std::to_string(role) +
                        "; the roles are 0 (metadata and bodies), 1 (metadata), 2 (bodies) and 3 (messages of equals)");
  }
  const auto known = static_cast<ChannelRole>(role);
  if (serves == Serves::kStreams && known == ChannelRole::kMessages) {
    throw ProtocolError(
        "the client is a peer (xd.peers), but this server serves tables: use the URI of a listener for peers");
  }
  if (serves == Serves::kPeers && known != ChannelRole::kMessages) {
    throw ProtocolError("the client asks for tables, but this listens for peers (xd.peers): use the URI of a server");
  }
  return known;
}

void throw_refused(const Refused& refused, const std::string& where, std::uint32_t version, std::uint32_t own) {
  const std::string what = where + " refused the connection: " + refused.reason;
  switch (refused.code) {
    case Refusal::kNotAllowed: throw PermissionError(what);
    case Refusal::kResources: throw ConnectionError(what);
    case Refusal::kOtherVersion: throw HandshakeError(what + " (" + versions(version, own) + ")");
    case Refusal::kMalformed:
    case Refusal::kMode:
    case Refusal::kChecksums: break;
  }
  throw HandshakeError(what);
}

void require_server_version(const std::string& where, std::uint32_t version, std::uint32_t own) {
  if (version != own) throw HandshakeError(where + ": " + versions(version, own));
}

}  // namespace crossdock::transport
