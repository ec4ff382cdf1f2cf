#pragma once

#include <string>

#include "crossdock/transport/options.h"

namespace crossdock::transport {

// For those who leave TLS to another library.

/// Throws InvalidArgumentError for TLS options that can't work.
void check_tls(const TlsOptions& options, bool server);

/// How errors name the texts of TlsOptions. The defaults are names that each interface of the library has words for.
struct TlsNames {
  std::string certificate = "the PEM text of the TLS certificate";
  std::string key = "the PEM text of the TLS key";
  std::string roots = "the PEM text of the TLS roots";
  std::string client_roots = "the PEM text of the TLS client roots";
};

/// Throws InvalidArgumentError if one of the texts that are given can't be used. The error begins with its name. Which
/// texts an end must have isn't checked.
void check_tls_texts(const TlsOptions& options, const TlsNames& names);

/// Returns the issuers that a client of tcp+tls trusts if TlsOptions::roots is empty, in PEM. Reads them anew each
/// time: some milliseconds. Throws InvalidArgumentError if there are none.
std::string system_roots();

}  // namespace crossdock::transport
