#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "transport/registry.h"
#include "transport/transport.h"

namespace crossdock::transport {

struct MemoryOptions {
  std::size_t queue_messages = 1024;        ///< For each direction; send() returns false beyond. At least 1.
  std::uint64_t max_message = 64ull << 20;  ///< In bytes, head and tail together.
  std::uint64_t max_body = 64ull << 30;     ///< In bytes, of a body by value or of what is read of one.
  Ways ways = Way::kMap | Way::kMessage;    ///< That it has. Without kMap, regions are read or bodies sent by value.
  /// How the n-th read of a connection goes, counted from 0: after how many calls of receive() or done() it ends. So
  /// reads can end in any order. A negative number ~n: it fails then, as if the peer had gone. None: it ends at the
  /// next call.
  std::function<int(std::uint64_t n)> reads{};
  std::size_t max_reads = 1024;  ///< Under way at once; read() returns null beyond.
};

/// Makes the in-process implementation of a connection: two ends joined by queues, for tests and simulation. It follows
/// the same rules as every other transport and passes the same conformance suite. Regions are passed by descriptor too:
/// the end that asks for a region checks and maps it anew, so an end never sees the other end's own mapping. The two
/// ends may be used by different threads and destroyed in either order. Throws InvalidArgumentError (no room for a
/// message), ResourceError (no descriptors left).
std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> memory_pair(const Agreement& agreement,
                                                                                const MemoryOptions& options);

/// Makes a transport of such connections with the scheme "memory:NAME". Servers and clients that hold the same
/// transport object find each other by name, within this process. Listening without a name picks one. Thread-safe.
std::shared_ptr<const Transport> make_memory_transport(const MemoryOptions& options = {});

}  // namespace crossdock::transport
