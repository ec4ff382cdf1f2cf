#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/chrono.h"
#include "crossdock/core/export.h"
#include "crossdock/core/impl_ptr.h"
#include "crossdock/core/time_limit.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "crossdock/transport/options.h"

namespace crossdock::session {

/// Options of a Relay, beside those of its server.
struct RelayOptions {
  /// How consumers are served. `source_threads` limits the fetches at the same time. `flight` must be none.
  ServerOptions server{};
  /// How to connect to the upstream. `timeout` also limits the wait for each batch. `runtime` is that of `server`.
  ClientOptions client{};
  /// Limits the memory of fetched tables and tensors: those that are kept, those that were replaced and that consumers
  /// still hold, and those that are being received, with their messages. 0: a quarter of the machine's memory, or of
  /// this process's cgroup.
  std::uint64_t max_memory = 0;
  /// For this time, what is held is served without a question to the upstream. 0: the upstream is asked at each
  /// request.
  std::chrono::milliseconds max_age{0};
  /// Whether what is held is served while the upstream can't be reached. Otherwise requests fail with its error.
  bool stale = true;
};

/// Fetches what its consumers ask for from another server, the upstream, once, and serves it to all of them: over shm:
/// one fetch for all processes of a machine. A table is served once all of it was received, in the memory that it was
/// received in; its schema before. Consumers that ask for a name while it is fetched wait for that fetch; it goes on if
/// they leave.
///
/// Before a table is fetched, and as it arrives, the relay withdraws what was least recently asked for, and what no
/// consumer holds, until there is room. If all of that isn't enough, none is withdrawn, and the request fails with a
/// ResourceError. What a consumer holds stays as it is. Live streams and factories are refused with an
/// UnsupportedError. The catalog has the upstream's names. Errors of the upstream reach the consumer with their names;
/// those of the connection to it as an UpstreamError.
///
/// A name is fetched again when its version in the upstream's catalog has changed (CatalogEntry::version), or, of
/// servers that have no versions, when it is older than RelayOptions::max_age. A request that comes while the same
/// name is being asked for or fetched gets what that brings, which may be older than the request. After a failure to
/// connect, the relay tries again with the first request after a second.
///
/// Thread-safe. After a fork it belongs to the parent: every call in the child throws ForkError.
class CROSSDOCK_EXPORT Relay {
 public:
  /// Connects to the first of the `upstream` URIs that answers, and listens, before it returns. A later connection may
  /// be to another one. Throws as Client and Server do; ConnectionError if there are several and none answers;
  /// InvalidArgumentError for no upstream, and for a Flight server beside it. `interrupted`: for the connecting.
  Relay(std::vector<std::string> upstream, RelayOptions options, const transport::InterruptHook& interrupted = {});
  /// Calls close().
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// The URI to connect to, for the first of ServerOptions::uris.
  const std::string& uri() const noexcept;
  /// The URIs to connect to, for all of ServerOptions::uris.
  const std::vector<std::string>& uris() const noexcept;
  /// Returns statistics with `relay` set. Throws ClosedError, ForkError.
  ServerStats stats() const;
  /// Refuses requests from now on, and waits until the streams under way have ended, as Server::drain() does. Throws
  /// InterruptedError, ClosedError, ForkError.
  bool drain(const TimeLimit& timeout = {}, const transport::InterruptHook& interrupted = {});
  /// Ends every stream and fetch under way with an error at its consumers, stops listening, and joins the threads. What
  /// consumers hold stays valid. May be called twice. Throws InterruptedError after everything was closed except a
  /// fetch that hasn't ended: the next close(), or the destructor, waits for that.
  void close(const transport::InterruptHook& interrupted = {});

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::session
