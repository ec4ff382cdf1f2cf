#include "session/flight/peer_host.h"

#include <array>
#include <utility>

namespace crossdock::session {

std::string peer_host(std::string_view peer) {
  constexpr std::string_view kV4 = "ipv4:";
  constexpr std::string_view kV6 = "ipv6:";
  constexpr std::string_view kMapped = "::ffff:";
  const std::size_t port = peer.rfind(':');
  if (port == std::string_view::npos) return {};
  if (peer.starts_with(kV4) && port > kV4.size()) return std::string(peer.substr(kV4.size(), port - kV4.size()));
  if (!peer.starts_with(kV6) || port <= kV6.size()) return {};
  std::string_view host = peer.substr(kV6.size(), port - kV6.size());
  // The version of gRPC decides how the brackets are written.
  for (const auto& [open, close] :
       std::array<std::pair<std::string_view, std::string_view>, 2>{{{"%5B", "%5D"}, {"[", "]"}}}) {
    if (host.starts_with(open) && host.ends_with(close)) {
      host = host.substr(open.size(), host.size() - open.size() - close.size());
    }
  }
  const bool is_v4 = host.starts_with(kMapped) && host.find('.') != std::string_view::npos;
  return std::string(is_v4 ? host.substr(kMapped.size()) : host);
}

}  // namespace crossdock::session
