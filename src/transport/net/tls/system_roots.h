#pragma once

#include <string>

namespace crossdock::transport::net::tls {

/// Returns the certificates of the issuers that OpenSSL trusts by default, in PEM, each once: those in the file
/// SSL_CERT_FILE and in the directories SSL_CERT_DIR of the environment, or where they aren't set, in the file and in
/// the directory that OpenSSL was built with. As OpenSSL does, leaves out what can't be read. Also leaves out
/// certificates in OpenSSL's form "TRUSTED CERTIFICATE": its limits can't be said in PEM's usual one. Throws
/// InvalidArgumentError, which names the places, if there is none at all.
std::string system_roots();

}  // namespace crossdock::transport::net::tls
