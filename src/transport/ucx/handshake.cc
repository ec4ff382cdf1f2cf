#include "handshake.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "control.h"
#include "crossdock/core/error.h"
#include "transport/net/limits.h"

namespace crossdock::transport::ucx {
namespace {

/// With UcxOptions::keepalive before it, a lost network is noticed within 10 s.
constexpr std::chrono::seconds kClientUserTimeout{5};

}  // namespace

void check_options(const UcxOptions& options) {
  net::check_limits(options, "UcxOptions");
  if (options.transports.empty()) {
    throw InvalidArgumentError("UcxOptions::transports is empty: UCX would have none to use; \"all\" allows every one");
  }
  if (options.remote_reads && !options.token.empty()) {
    throw InvalidArgumentError(
        "remote reads let every process that reaches this one read and write its memory, before it has "
        "proved that it knows the token: leave out one of the two");
  }
}

UcxOptions client_options(UcxOptions options) {
  if (!options.user_timeout) options.user_timeout = kClientUserTimeout;
  return options;
}

Introduction introduce_as_specified(const UcxOptions& options, std::uint64_t want_data,
                                    std::optional<std::uint64_t> free_data, ChannelRole role, bool reads,
                                    const std::string& where) {
  constexpr auto kUnknown = std::numeric_limits<std::uint64_t>::max();
  return {.peer_max_message = kUnknown,
          .peer_max_body = kUnknown,
          .agreement = {.want_data = want_data,
                        .free_data = free_data,
                        .role = role,
                        .as_specified = true,
                        .ways = reads ? kWays : Ways(Way::kMessage),
                        .prefers_reads = reads,
                        .max_body = options.max_body,
                        .peer = where}};
}

ReceiveLimits limits_for(const UcxOptions& options, std::uint64_t max_message) {
  return {.max_untagged = max_message,
          .max_control = std::max(net::kMaxRecord, kMaxControlBytes),
          .max_tagged = std::max(max_message, options.max_body),
          .max_in_pieces = options.max_body,
          // Without bodies, no large message is expected that comes by rendezvous.
          .max_eager = options.max_body > 0 ? kMaxEager : std::max(kMaxEager, max_message)};
}

ReceiveLimits limits_as_specified(const UcxOptions& options, std::uint64_t max_message) {
  ReceiveLimits limits = limits_for(options, max_message);
  limits.max_in_pieces = 0;
  return limits;
}

}  // namespace crossdock::transport::ucx
