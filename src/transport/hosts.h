#pragma once

#include <string>

namespace crossdock::transport {

/// Whether two names or addresses of hosts mean one machine, as far as this process can tell: they are the same text,
/// or have an address in common, or both are of this machine. False if one isn't known. The name lookup may block as
/// long as the system's resolver does.
bool same_machine(const std::string& one, const std::string& other);

/// Returns the address, as a number, that this machine has on its way to a host. Nothing is sent. Throws NotFoundError
/// (no such name), SystemError (no way there).
std::string address_towards(const std::string& host);

}  // namespace crossdock::transport
