#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/session/server.h"
#include "dissociated/uri.h"
#include "session/way.h"
#include "transport/shm.h"

/// Helpers that several tests of sessions share.
namespace crossdock::session {

/// How long a test waits for an event that must come. One that doesn't fails the test instead of hanging it.
inline constexpr std::chrono::seconds kSoon{20};

inline const PublishOptions kReplace{.replace = true};

inline constexpr WayAnswer kByMessage = {transport::Way::kMessage, "the test wants it"};

/// A client's connection without a client.
inline std::unique_ptr<transport::Connection> connect_by_shm(const Server& server) {
  return transport::shm_connect(dissociated::parse_uri(server.uri()).address, {}, 10'000, {});
}

/// Asks for the stream of `ticket` over a connection of connect_by_shm().
inline void ask(transport::Connection& connection, std::string_view ticket) {
  if (!connection.send_tagged(connection.agreement().want_data, as_bytes(ticket), {})) throw TimeoutError("no room");
}

}  // namespace crossdock::session
