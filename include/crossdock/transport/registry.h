#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/core/log.h"
#include "crossdock/transport/transport.h"

namespace crossdock::transport {

/// One way to be reached and to reach others: what a URI's scheme names. Thread-safe; its listeners and connections
/// hold what they need of it.
class CROSSDOCK_EXPORT Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view scheme() const noexcept = 0;
  /// Whether its listeners take clients of other users that memory is shared with. False where bodies go by value.
  virtual bool shares_with_others() const noexcept = 0;
  /// `address` is the URI's, percent-decoded, without scheme and query; empty: of the transport's choosing. Throws as
  /// the transport's own listen function does.
  virtual std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                           LogCallback log) const = 0;
  virtual std::unique_ptr<Connection> connect(const std::string& address, ChannelRole role, int timeout_ms,
                                              const InterruptHook& interrupted) const = 0;
};

/// The transports of a process's choosing: built once, then passed to whoever needs it, never global. Adding is for one
/// thread; a const registry is thread-safe.
class CROSSDOCK_EXPORT TransportRegistry {
 public:
  /// Throws InvalidArgumentError if its scheme is taken.
  void add(std::shared_ptr<const Transport> transport);
  /// Notes a scheme that this build or this machine can't speak: `needs` completes "scheme ucx: needs ...".
  void add_missing(std::string scheme, std::string needs);
  /// Throws SchemeError, which says what it needs or which schemes there are.
  const std::shared_ptr<const Transport>& find(std::string_view scheme) const;
  std::vector<std::string> schemes() const;

 private:
  struct Missing {
    std::string scheme;
    std::string needs;
  };
  std::vector<std::shared_ptr<const Transport>> transports_;
  std::vector<Missing> missing_;
};

}  // namespace crossdock::transport
