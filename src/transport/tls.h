#pragma once

#include <string>

#include "crossdock/transport/options.h"

namespace crossdock::transport {

// For those who leave TLS to another library.

/// Throws InvalidArgumentError for TLS options that can't work.
void check_tls(const TlsOptions& options, bool server);

/// Returns the issuers that a client of tcp+tls trusts if TlsOptions::roots is empty, in PEM. Reads them anew each
/// time: some milliseconds. Throws InvalidArgumentError if there are none.
std::string system_roots();

}  // namespace crossdock::transport
