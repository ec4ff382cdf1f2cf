#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "crossdock/dissociated/uri.h"
#include "crossdock/session/client.h"
#include "session/client_connection.h"

namespace crossdock::session {

/// A client's connections to one server, of one kind: those without a stream under way wait here to be used again.
/// Thread-safe; outlives the client while readers hold it. A shared_ptr holds it: its connections know it.
class ClientPool : public std::enable_shared_from_this<ClientPool> {
 public:
  /// Where a server is, and what its connections are to carry. `text`, for errors, is the URI as it was given. Throws
  /// UriError, SchemeError.
  ClientPool(const dissociated::Uri& uri, ChannelRole role, const std::string& text, ClientOptions options);

  /// An idle connection, or a new one. Throws as Client's constructor; ClosedError after close().
  std::shared_ptr<ClientConnection> take(const transport::InterruptHook& interrupted);
  /// A connection whose stream was taken to its end.
  void put_back(std::shared_ptr<ClientConnection> connection);
  /// A connection that the caller holds, and that isn't to wait for another stream: nothing where it doesn't wait here.
  void drop(const ClientConnection& connection) noexcept;
  void close();

  const ClientOptions& options() const noexcept { return options_; }
  const std::string& where() const noexcept { return where_; }
  const ForkGuard& made_in() const noexcept { return made_in_; }

 private:
  ForkGuard made_in_;
  const dissociated::Uri uri_;
  const ChannelRole role_;
  const std::string where_;
  const ClientOptions options_;
  const std::shared_ptr<const transport::Transport> transport_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<ClientConnection>> idle_;
  bool closed_ = false;
};

}  // namespace crossdock::session
