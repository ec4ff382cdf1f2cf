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

/// The result of looking for libfabric's library, and for the provider that the options name.
struct FabricReport {
  bool found = false;                ///< Both can be used.
  std::string library{};             ///< The file; empty if not found.
  std::string version{};             ///< As in "1.17"; empty if not found.
  std::string provider{};            ///< As in FabricOptions::provider.
  std::vector<std::string> tried{};  ///< A line for each library and each provider that couldn't be used: the reason.
};

/// Looks for libfabric's library and the provider, whose code this runs.
FabricReport find_fabric(const FabricOptions& options = {});

/// Listens at `address`, the address of a URI, as in tcp.h. Throws the errors of tcp_listen(), UnsupportedError (no
/// library, or no such provider), ForkError.
std::unique_ptr<Listener> fabric_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                        const FabricOptions& options, LogCallback log);

/// Connects and shakes hands, as tcp_connect() does. Throws likewise; UnsupportedError as fabric_listen() does;
/// ForkError.
std::unique_ptr<Connection> fabric_connect(const std::string& address, const FabricOptions& options, int timeout_ms,
                                           const InterruptHook& interrupted, const ConnectOptions& wishes = {});

/// Makes a transport from fabric_listen() and fabric_connect(), for a registry. libfabric's library is opened when the
/// transport is first used. Throws InvalidArgumentError for options that can't work.
std::shared_ptr<const Transport> make_fabric_transport(const FabricOptions& options = {});

}  // namespace crossdock::transport
