#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "crossdock/core/export.h"
#include "crossdock/transport/transport.h"

namespace crossdock::transport {

struct MemoryOptions {
  std::size_t queue_messages = 1024;
  std::uint64_t max_message = 64ull << 20;
};

/// The in-process twin of a connection: two ends joined by queues, for tests and simulation. Regions are handed over as they are. The same
/// rules as any other, and the same conformance suite.
CROSSDOCK_EXPORT std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> memory_pair(const Agreement& agreement,
                                                                                                const MemoryOptions& options);

}  // namespace crossdock::transport
