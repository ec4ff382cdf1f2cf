#pragma once

#include <string>

namespace crossdock::transport {

/// Whether two names or addresses of hosts mean one machine, as far as this process can tell: they are the same text,
/// or have an address in common, or both are of this machine. False if one isn't known. The name lookup may block as
/// long as the system's resolver does.
bool same_machine(const std::string& one, const std::string& other);

/// Whether only programs of this machine reach a server that listens at `host`, a name or an address of the loopback
/// interface. False for "*", and for a host that isn't known. The name lookup may block, as above.
bool is_loopback_host(const std::string& host);

/// Returns what the log of a server that listens at `uri` says, as a warning, if everybody who reaches that address may
/// connect, and other machines can reach it.
std::string open_address_warning(const std::string& uri);

/// Returns the address, as a number, that this machine has on its way to a host. Nothing is sent. Throws
/// ConnectionError (no such name), SystemError (no way there).
std::string address_towards(const std::string& host);

}  // namespace crossdock::transport
