#include "settings.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "transport/net/limits.h"
#include "transport/net/token.h"

namespace crossdock::transport::fabric {

void check_options(const FabricOptions& options) {
  net::check_limits(options, "FabricOptions");
  if (options.send_buffer < 0 || options.receive_buffer < 0) {
    throw InvalidArgumentError("FabricOptions::send_buffer and receive_buffer can't be negative");
  }
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgumentError(
        "FabricOptions::provider (in Python and for the command CROSSDOCK_FABRIC_PROVIDER) is \"" +
        excerpt(options.provider) + "\": " + why);
  };
  if (options.provider.empty() || options.provider.size() > 64) refuse("a name has from 1 to 64 bytes");
  if (options.provider == "shm") {
    refuse(
        "libfabric's shm reads any address of the peer, can't be waited for, and doesn't tell that a peer is gone; "
        "use the transport shm: within a machine");
  }
  if (options.provider == "net") {
    refuse(
        "the descriptor of libfabric's net is readable at all times, so a thread that waits never sleeps; use "
        "\"tcp;ofi_rxm\"");
  }
}

net::SocketOptions socket_options(const FabricOptions& options) noexcept {
  return {.send_buffer = options.send_buffer,
          .receive_buffer = options.receive_buffer,
          .keepalive_s = static_cast<int>(options.keepalive.count()),
          .user_timeout_ms = static_cast<int>(options.user_timeout.count())};
}

net::StreamLimits stream_limits(const FabricOptions& options) noexcept {
  return {.max_message = options.max_message,
          .max_body = options.max_body,
          .queue_bytes = options.queue_bytes,
          .kinds = net::FrameKinds::kBeside};
}

Ways own_ways(const FabricOptions& options) noexcept {
  return options.remote_reads ? Way::kRead | Way::kMessage : Ways(Way::kMessage);
}

std::string carrier_of(const FabricOptions& options) { return "fabric (" + options.provider + ")"; }

std::uint64_t random_number() {
  const net::Nonce random = net::make_nonce();
  return load_le<std::uint64_t>(random.data());
}

SocketAddress with_port(const SocketAddress& host, std::uint16_t port) noexcept {
  SocketAddress out = host;
  if (host.storage.ss_family != AF_INET6) {
    reinterpret_cast<sockaddr_in*>(&out.storage)->sin_port = htons(port);
    return out;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(host.storage);
  if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    reinterpret_cast<sockaddr_in6*>(&out.storage)->sin6_port = htons(port);
    return out;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
  out = {};
  std::memcpy(&out.storage, &v4, sizeof v4);
  out.size = sizeof v4;
  return out;
}

}  // namespace crossdock::transport::fabric
