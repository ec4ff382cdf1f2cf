#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/registry.h"

/// Which locations of a Flight endpoint are tried, and in which order.
namespace crossdock::session {

/// Returns the locations in the order of what reading from there costs, and those of equal cost in their order: within
/// the machine first. Without arrow-flight-reuse-connection, which means the server that was asked.
std::vector<std::string> by_cost(std::vector<std::string> locations);

/// Returns "host:port" of the address "//host:port" of a Flight server; a slash may follow. Nothing if it is none, if
/// no host has so long a name, or if the port is over 65535, which gRPC would take for another one.
std::optional<std::string> host_and_port(std::string_view address);

/// Returns the host of "//host:port" or "//[::1]:port"; empty if there is none.
std::string host_in(std::string_view address);

/// Returns the host of "host:port" or "[::1]:port", without brackets.
std::string host_without_port(const std::string& address);

/// Whom a client has asked, and what it allows.
struct LocationRules {
  std::string host;
  bool encrypted = false;
  bool any_location = false;  ///< It allows other hosts, and connections that aren't encrypted.
};

/// Returns why a client doesn't try a location; empty if it does. A server could otherwise have its clients connect to
/// any address. And where it was asked by an encrypted connection, the table must not go between machines without.
std::string why_not(const std::string& location, const LocationRules& rules,
                    const transport::TransportRegistry& transports);

}  // namespace crossdock::session
