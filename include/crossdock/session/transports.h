#pragma once

#include <memory>

#include "crossdock/core/export.h"
#include "crossdock/transport/registry.h"
#include "crossdock/transport/shm.h"
#include "crossdock/transport/tcp.h"

namespace crossdock::session {

/// One member for each transport that reaches other processes.
struct TransportOptions {
  transport::ShmOptions shm = {};
  transport::TcpOptions tcp = {};
};

/// A registry of every transport that reaches other processes, each with these options; make_memory_transport() is
/// added by who wants it. Throws InvalidArgumentError for options that can't work.
CROSSDOCK_EXPORT std::shared_ptr<const transport::TransportRegistry> make_transports(
    const TransportOptions& options = {});

}  // namespace crossdock::session
