#pragma once

#include <string>

namespace crossdock::transport::net::tls {

/// Returns the certificates of the issuers that OpenSSL trusts by default, in PEM, each once: those in the file
/// SSL_CERT_FILE and in the directories SSL_CERT_DIR of the environment, or where they aren't set, in the file and in
/// the directory that OpenSSL was built with, or else in system_bundle(). As OpenSSL does, leaves out what can't be
/// read. Also leaves out certificates in OpenSSL's form "TRUSTED CERTIFICATE": its limits can't be said in PEM's usual
/// one. Throws InvalidArgumentError, which names the places, if there is none at all.
std::string system_roots();

/// Returns the path of a PEM file with the issuers that this system trusts, if OpenSSL was linked statically (as in
/// wheels), comes from another distribution, and so knows another place than this system's. Else, and if the
/// environment names a place, returns an empty path: OpenSSL finds the roots by itself.
std::string system_bundle();

}  // namespace crossdock::transport::net::tls
