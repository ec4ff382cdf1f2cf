#pragma once

#include <string>
#include <string_view>

#include "crossdock/transport/options.h"

namespace crossdock::transport {

/// Returns the ways that a client wants among those that its transport has. Throws UnsupportedError, which names both
/// sets and `where`, if there is none.
Ways agreed_ways(Ways wanted, Ways transports, std::string_view where);

}  // namespace crossdock::transport
