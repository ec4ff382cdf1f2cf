#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/session/server.h"

namespace crossdock::python {

/// Returns a server's statistics in plain dicts and lists. Needs the GIL.
nanobind::dict dict_of(const session::ServerStats& stats);

}  // namespace crossdock::python
