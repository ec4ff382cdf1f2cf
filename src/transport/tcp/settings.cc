#include "settings.h"

#include "crossdock/core/error.h"
#include "transport/net/limits.h"

namespace crossdock::transport::tcp {

void check_options(const TcpOptions& options) {
  net::check_limits(options, "TcpOptions");
  if (options.send_buffer < 0 || options.receive_buffer < 0) {
    throw InvalidArgumentError("TcpOptions::send_buffer and receive_buffer can't be negative");
  }
}

std::uint64_t own_features(const TcpOptions& options) noexcept {
  switch (options.checksum) {
    case Checksum::kAuto: return net::kCommonFeatures | net::kFeatureChecksums;
    case Checksum::kOn: return net::kCommonFeatures | net::kFeatureChecksums | net::kFeatureAsksForChecksums;
    case Checksum::kOff: break;
  }
  return net::kCommonFeatures;
}

net::SocketOptions socket_options(const TcpOptions& options) noexcept {
  return {.send_buffer = options.send_buffer,
          .receive_buffer = options.receive_buffer,
          .keepalive_s = static_cast<int>(options.keepalive.count()),
          .user_timeout_ms = static_cast<int>(options.user_timeout.count())};
}

net::StreamLimits stream_limits(const TcpOptions& options) noexcept {
  return {.max_message = options.max_message, .max_body = options.max_body, .queue_bytes = options.queue_bytes};
}

}  // namespace crossdock::transport::tcp
