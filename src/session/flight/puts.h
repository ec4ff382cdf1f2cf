#pragma once

#include <functional>
#include <memory>
#include <string>

#include "crossdock/session/server.h"
#include "flight/service.h"
#include "session/flight/call_threads.h"
#include "session/flight/put_call.h"

namespace crossdock::session {

/// Throws InvalidArgumentError if something is published under the name, with what helps a Flight client.
void check_is_free(const flight::Directory& directory, const std::string& name);

/// The tables that Flight clients are sending: each is received on a thread of its own, into an arena, and published
/// when it is whole. Thread-safe.
class Puts {
 public:
  /// Publishes a table under a name. Throws the error that the client gets.
  using Publish = std::function<void(const std::string& name, Source source, bool replace)>;

  Puts(const ServerOptions& options, const flight::Directory& directory, Publish publish)
      : options_(options), directory_(directory), publish_(std::move(publish)) {}

  /// Begins with a call whose name is known. Throws UnsupportedError (the server takes no tables), ResourceError (too
  /// many at once), InvalidArgumentError (a name that can't be one).
  void start(const std::shared_ptr<PutCall>& call);
  /// Waits for all. Their calls must have ended.
  void wait() noexcept { threads_.wait(); }

 private:
  void receive(const std::shared_ptr<PutCall>& call) const;

  const ServerOptions& options_;
  const flight::Directory& directory_;
  const Publish publish_;
  CallThreads threads_{16, "receiving tables"};
};

}  // namespace crossdock::session
