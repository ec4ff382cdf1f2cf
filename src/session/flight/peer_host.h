#pragma once

#include <string>
#include <string_view>

namespace crossdock::session {

/// Returns the address in gRPC's text for the other end of a call: "10.0.0.7" of "ipv4:10.0.0.7:51112", "::1" of
/// "ipv6:%5B::1%5D:51112". An IPv4 address in IPv6's form is returned in its own. Empty: it has none.
std::string peer_host(std::string_view peer);

}  // namespace crossdock::session
