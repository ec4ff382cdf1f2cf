#pragma once

#include <memory>

#include "crossdock/c_api/options.h"

namespace crossdock::transport {
class TransportRegistry;
}

namespace crossdock::c_api {

/// Returns the transports that a server or client is to use; null, which means the defaults, for null. Throws
/// InvalidArgumentError and UnsupportedError for options that are wrong.
std::shared_ptr<const transport::TransportRegistry> transports_of(const crossdock_transport_options* given);

}  // namespace crossdock::c_api
