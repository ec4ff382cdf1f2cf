#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "crossdock/core/export.h"
#include "crossdock/transport/registry.h"
#include "crossdock/transport/transport.h"

namespace crossdock::transport {

struct MemoryOptions {
  std::size_t queue_messages = 1024;        ///< Of one direction: send() says false beyond. At least 1.
  std::uint64_t max_message = 64ull << 20;  ///< Bytes, head and tail together.
  std::uint64_t max_body = 64ull << 30;     ///< Bytes of a body by value.
  bool shares_memory = true;                ///< False: as between machines, bodies go by value.
};

/// The in-process implementation of a connection: two ends joined by queues, for tests and simulation. The same rules as any
/// other transport, and the same conformance suite: regions too pass by descriptor and are checked and mapped anew by
/// the end that asks for them, so an end never sees the other's own mapping. The two ends may be used by different
/// threads, and may be destroyed in either order. Throws InvalidArgumentError (no room for a message), ResourceError
/// (no descriptors left).
CROSSDOCK_EXPORT std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> memory_pair(
    const Agreement& agreement, const MemoryOptions& options);

/// The same behind a scheme, "memory:NAME": servers and clients that hold this very transport find each other by name,
/// within this process. Listening with no name picks one. Thread-safe.
CROSSDOCK_EXPORT std::shared_ptr<const Transport> make_memory_transport(const MemoryOptions& options = {});

}  // namespace crossdock::transport
