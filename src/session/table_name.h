#pragma once

#include <cstddef>
#include <string_view>

namespace crossdock::session {

/// The longest name of a table, in bytes: each message and ticket that has a name has room for it.
inline constexpr std::size_t kMostName = 1 << 16;

/// Throws InvalidArgumentError for a name that can't be published: it is empty, too long, or begins as a request with
/// parameters does (docs/protocol.md).
void check_name(std::string_view name);

}  // namespace crossdock::session
