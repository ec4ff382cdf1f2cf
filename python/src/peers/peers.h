#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Binds _native.PeerHub, PeerListener, Peer and what they need. crossdock/peers.py wraps them for asyncio.
void bind_peers(nanobind::module_& module);

}  // namespace crossdock::python
