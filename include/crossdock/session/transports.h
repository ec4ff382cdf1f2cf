#pragma once

#include <memory>

#include "crossdock/core/export.h"
#include "crossdock/transport/registry.h"
#include "crossdock/transport/shm.h"
#include "crossdock/transport/tcp.h"

namespace crossdock::session {

/// Options of all transports that reach other processes.
struct TransportOptions {
  transport::ShmOptions shm = {};
  transport::TcpOptions tcp = {};
};

/// Makes a registry with every transport that reaches other processes. Doesn't contain make_memory_transport(): add
/// that yourself if you need it. Throws InvalidArgumentError for options that can't work.
CROSSDOCK_EXPORT std::shared_ptr<const transport::TransportRegistry> make_transports(
    const TransportOptions& options = {});

}  // namespace crossdock::session
