#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/log.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// A way to listen and to connect, named by the scheme of a URI. Thread-safe. Its listeners and connections keep alive
/// what they need of it.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view scheme() const noexcept = 0;
  /// The ways that its connections may have.
  virtual Ways ways() const noexcept = 0;
  /// Whether some clients of its listeners get files only as sealed copies: other users, who map the server's memory,
  /// and those of a transport that reads a file's mapping in this process, where a file that shrinks would end it.
  virtual bool needs_sealed_files() const noexcept = 0;
  /// Whether peers strictly as specified can be at the other end: clients of its listeners, and servers.
  virtual bool reaches_specified_peers() const noexcept { return false; }
  /// Throws what listen() would throw for this address, as far as that can be said without listening and without asking
  /// for the address of a host: it isn't an address, its folder doesn't exist, a library is missing.
  virtual void check_address(const std::string& address) const = 0;
  /// Listens at `address`: the address of the URI, percent-decoded, without scheme and query. If it is empty, the
  /// transport chooses one. Throws the errors of the transport's own listen function.
  virtual std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                           LogCallback log) const = 0;
  /// Whether peers can reach each other by it (ChannelRole::kMessages).
  virtual bool has_peers() const noexcept { return false; }
  /// Listens for peers, see Serves::kPeers. Throws as listen(), and UnsupportedError if this transport has no peers.
  virtual std::unique_ptr<Listener> listen_for_peers(const std::string& address, LogCallback log) const;
  virtual std::unique_ptr<Connection> connect(const std::string& address, const ConnectOptions& wishes, int timeout_ms,
                                              const InterruptHook& interrupted) const = 0;
};

/// The transports that a process chooses to use. It is built once and passed to its users; there is no global one. Add
/// transports from one thread only; a const registry is thread-safe.
class TransportRegistry {
 public:
  /// Throws InvalidArgumentError if the transport's scheme is already registered.
  void add(std::shared_ptr<const Transport> transport);
  /// Returns the transport of a scheme. Throws SchemeError, whose text says which schemes there are.
  const std::shared_ptr<const Transport>& find(std::string_view scheme) const;

 private:
  std::vector<std::shared_ptr<const Transport>> transports_;
};

}  // namespace crossdock::transport
