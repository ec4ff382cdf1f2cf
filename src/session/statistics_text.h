#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "crossdock/session/stats.h"

/// Statistics as a JSON text, for other processes (docs/reference/protocol.md, "Statistics").
namespace crossdock::session {

/// The longest text in bytes that a client takes. A server's are shorter.
inline constexpr std::size_t kMostStatisticsText = 1 << 20;
/// The most entries of a list that a server sends, and that a client takes.
inline constexpr std::size_t kMostListed = 256;

/// Returns the text of at most about `room` bytes. Leaves entries of the two lists out if there are more than
/// kMostListed, or no room for them, and counts them.
std::string statistics_text(ServerStats stats, std::size_t room);

/// Reads such a text, and trusts nothing in it. Members that it doesn't know are skipped, and those that aren't there
/// keep their defaults. Throws InvalidDataError.
ServerStats statistics_in(std::string_view text);

}  // namespace crossdock::session
