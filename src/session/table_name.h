#pragma once

#include <cstddef>
#include <string_view>

namespace crossdock::session {

/// The longest name of a table, in bytes: each message and ticket that has a name has room for it.
inline constexpr std::size_t kMostName = 1 << 16;

/// Tickets of requests that are for no table begin so.
inline constexpr std::string_view kReserved{"\0crossdock:", 11};
/// The ticket that asks for the server's statistics (docs/reference/protocol.md).
inline constexpr std::string_view kStatisticsTicket{"\0crossdock:statistics", 21};

/// Throws InvalidArgumentError for a name that can't be published: it is empty, reserved, too long, or begins as a
/// request with parameters does (docs/reference/protocol.md).
void check_name(std::string_view name);

}  // namespace crossdock::session
