#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crossdock/core/chrono.h"
#include "crossdock/core/function.h"
#include "crossdock/transport/options.h"

namespace crossdock::session {

/// Which tables a Flight server takes from clients (DoPut).
enum class FlightPuts : std::uint8_t {
  kRefused,  ///< None.
  kNew,      ///< Under names that aren't taken.
  kReplace,  ///< Also in place of others, unless the client says otherwise.
};

/// A Flight server beside a Server's own addresses (Apache Arrow Flight, over gRPC): by it, a client finds the tables
/// and the addresses. Clients that know nothing of Crossdock read the same tables from it.
struct FlightOptions {
  /// "grpc://127.0.0.1:8815"; port 0 is a free one, and the host "*" every address of the machine. Empty: no Flight
  /// server. "grpc+tls:" encrypts. Needs the module crossdock_flight.so and gRPC's library.
  std::string uri{};
  /// Of grpc+tls: the certificate, its key, and whether clients need one.
  transport::TlsOptions tls{};
  /// The secret that a client must send: in the header "authorization: Bearer <token>", or as the password of a login
  /// by Handshake. Without TLS it is sent as it is: use it over networks that nobody else reads. Empty: none.
  std::string token{};
  /// Whether a user of this name has this password: a login by Handshake, which is answered with a bearer token for
  /// some time. Called on a thread of its own, up to 16 at once; closing the server waits for it. What it throws
  /// refuses the login. Empty: there are no logins. With neither a token nor this, everybody may read.
  std::function<bool(const std::string& user, const std::string& password)> login{};
  /// With a token or a login, tickets are signed: by the first of these keys, of 16 to 1024 bytes. All of them check
  /// tickets, up to 16. Servers that share a key take each other's tickets. Empty: a random key, of this server alone.
  std::vector<std::string> ticket_keys{};
  std::chrono::seconds ticket_lifetime{300};       ///< How long a ticket may be used; 1 s to 100 years.
  std::chrono::seconds login_lifetime{12 * 3600};  ///< The same for what a login is answered with.
  FlightPuts puts = FlightPuts::kRefused;          ///< Which tables clients may publish here.
  /// The most bytes of one table that a client sends, with its messages. Each takes memory of this process.
  std::uint64_t max_put_bytes = 16ull << 30;
};

/// Options of `grpc:` and `grpc+tls:`, for clients of Flight servers.
struct GrpcOptions {
  /// Sent with each call, as the header "authorization: Bearer <token>". Empty: none.
  std::string token{};
  /// A login by Handshake, before the first call, and again when the server asks for it. Empty: none.
  std::string user{};
  /// The password of `user`. Over `grpc:` it is sent as it is, so use `grpc+tls:` in networks that others read.
  std::string password{};
};

}  // namespace crossdock::session
