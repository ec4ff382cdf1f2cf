#pragma once

#include <netinet/in.h>

#include <string>

#include "arguments.h"
#include "core/unique_fd.h"

/// TCP sockets with the options of the tcp transport and none of its code, for the programs that it is measured beside.
namespace crossdock::bench {

/// Returns an IPv4 address. Throws InvalidArgumentError.
sockaddr_in address_of(const std::string& host, int port);
/// Listens at `--host`, prints the address as a line of JSON, and accepts one client. Throws SystemError.
UniqueFd accept_raw(const Arguments& arguments);
/// Connects to `--address`. Throws SystemError.
UniqueFd connect_raw(const Arguments& arguments);

}  // namespace crossdock::bench
