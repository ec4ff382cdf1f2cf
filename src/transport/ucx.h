#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/log.h"
#include "crossdock/transport/options.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// The result of looking for UCX's library.
struct UcxReport {
  bool found = false;
  std::string library{};             ///< The file; empty if not found.
  std::string version{};             ///< As in "1.13.1"; empty if not found.
  std::vector<std::string> tried{};  ///< A line for each library that couldn't be used, with the reason.
};

/// Looks for UCX's library, and closes it if nobody else uses it. Starts nothing of UCX.
UcxReport find_ucx(const UcxOptions& options = {});

/// Listens at `address`, the address of a URI, as in tcp.h; "*" means every IPv4 address. Throws UriError,
/// ConnectionError (no such name, or in use), UnsupportedError (no library of UCX, or one that can't be
/// used; IPv6 with a UCX before 1.22), ForkError, SystemError.
///
/// While there is a client to accept, Listener::accept() may take some milliseconds: UCX needs them for its worker. The
/// listener's destructor waits up to a second until its clients have what was sent to them.
std::unique_ptr<Listener> ucx_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const UcxOptions& options, LogCallback log);

/// Connects and shakes hands, as tcp_connect() does. Throws likewise; UnsupportedError as ucx_listen() does; ForkError.
std::unique_ptr<Connection> ucx_connect(const std::string& address, const UcxOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, const ConnectOptions& wishes = {});

/// Makes a transport from ucx_listen() and ucx_connect(), for a registry. UCX's library is opened when the transport is
/// first used. Throws InvalidArgumentError for options that can't work.
std::shared_ptr<const Transport> make_ucx_transport(const UcxOptions& options = {});

}  // namespace crossdock::transport
