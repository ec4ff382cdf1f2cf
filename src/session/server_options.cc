#include "session/server_options.h"

#include <chrono>

#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

/// The time at which a ticket expires must be one that its 64 bits and those of gRPC's timestamps have.
constexpr std::chrono::seconds kLongestLifetime{std::chrono::hours(24) * 365 * 100};

void check(const FlightOptions& options) {
  if (options.uri.empty() && (options.login || !options.token.empty() || !options.ticket_keys.empty())) {
    throw InvalidArgumentError("FlightOptions has a token, a login or keys, and no uri to listen at");
  }
  for (const auto lifetime : {options.ticket_lifetime, options.login_lifetime}) {
    if (lifetime.count() >= 1 && lifetime <= kLongestLifetime) continue;
    throw InvalidArgumentError("ticket_lifetime and login_lifetime must be from 1 s to 100 years");
  }
}

}  // namespace

void check_options(const ServerOptions& options) {
  if (options.window == 0) throw InvalidArgumentError("window must be at least 1 message");
  if (options.lease_limit == 0) throw InvalidArgumentError("lease_limit must be at least 1 byte");
  if (options.max_leases == 0) throw InvalidArgumentError("max_leases must be at least 1 buffer");
  if (options.max_streams == 0) throw InvalidArgumentError("max_streams must be at least 1 stream");
  if (options.source_threads == 0) throw InvalidArgumentError("source_threads must be at least 1 thread");
  check(options.flight);
  if (options.uris.empty()) throw InvalidArgumentError("a server needs at least one URI to listen at");
}

}  // namespace crossdock::session
