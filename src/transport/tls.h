#pragma once

#include "crossdock/transport/options.h"

namespace crossdock::transport {

/// Throws InvalidArgumentError for TLS options that can't work, for those who leave TLS to another library.
void check_tls(const TlsOptions& options, bool server);

}  // namespace crossdock::transport
