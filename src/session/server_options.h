#pragma once

#include "crossdock/session/server.h"

namespace crossdock::session {

/// Throws InvalidArgumentError for limits that no server can work with, and for no URI.
void check_options(const ServerOptions& options);

}  // namespace crossdock::session
