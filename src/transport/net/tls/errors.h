#pragma once

#include <string>

#include "context.h"

/// OpenSSL's errors in words. All of them use the error queue of the calling thread.
namespace crossdock::transport::net::tls {

/// Returns the reasons in the error queue, and empties it.
std::string take_reasons();

/// Throws the error for a handshake that has failed at this end, or that the peer has ended by an alert. Empties the
/// error queue. `where` names the peer, `name` is the one that its certificate had to have. Throws PermissionError
/// (certificates) or HandshakeError.
[[noreturn]] void throw_handshake_failure(ssl_st* session, const Context& context, const std::string& where,
                                          const std::string& name);

/// Throws the error for bytes that could not be read: PermissionError if the peer refuses this end's certificate, which
/// a client learns after its handshake only; ConnectionError for other alerts of the peer; ProtocolError if the bytes
/// break TLS. Empties the error queue.
[[noreturn]] void throw_read_failure(const std::string& where);

}  // namespace crossdock::transport::net::tls
