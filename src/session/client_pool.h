#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "crossdock/session/client.h"
#include "dissociated/uri.h"
#include "session/client_connection.h"
#include "transport/registry.h"

namespace crossdock::session {

/// A client's connections to one server, all with the same role and for the same ways. Connections without a stream
/// under way wait here to be reused. Thread-safe. Readers keep it alive after the client has ended. It must be owned by
/// a shared_ptr, because its connections refer to it.
class ClientPool : public std::enable_shared_from_this<ClientPool> {
 public:
  /// Sets the server's address and what the connections ask for; ClientOptions::way limits it. `text` is the URI as the
  /// user wrote it, for errors. Throws UriError, SchemeError.
  ClientPool(const dissociated::Uri& uri, const transport::ConnectOptions& wishes, const std::string& text,
             ClientOptions options);

  /// Returns the pool of connections for streams of which the client wants some columns only (`parts`), or which it
  /// wants on a device (or null), or to write to: this pool, unless the transport treats such streams in another way.
  std::shared_ptr<ClientPool> for_streams(bool parts, std::shared_ptr<device::Context> device, bool copy_on_write);

  /// Connects once, so that a wrong address is found at once. Throws the errors of Client's constructor.
  void try_out(const transport::InterruptHook& interrupted);
  /// Returns an idle connection, or a new one. Throws as try_out(), and ClosedError after close().
  std::shared_ptr<ClientConnection> take(const transport::InterruptHook& interrupted);
  /// Puts back a connection whose stream was read to its end.
  void put_back(std::shared_ptr<ClientConnection> connection);
  /// Removes a connection that must not wait for another stream. The caller holds it. Does nothing if it isn't waiting
  /// here.
  void drop(const ClientConnection& connection) noexcept;
  /// Closes idle connections whose server has ended, here and in the pools of for_streams(). Returns whether any idle
  /// connection is left. Never blocks.
  bool drop_ended();
  void close();

  const ClientOptions& options() const noexcept { return options_; }
  const std::string& where() const noexcept { return where_; }
  const ForkGuard& made_in() const noexcept { return made_in_; }

 private:
  std::shared_ptr<ClientConnection> connect(const transport::InterruptHook& interrupted);

  ForkGuard made_in_;
  const std::shared_ptr<const transport::Transport> transport_;
  const dissociated::Uri uri_;
  const transport::ConnectOptions wishes_;
  const std::string where_;
  const ClientOptions options_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<ClientConnection>> idle_;
  std::vector<std::shared_ptr<ClientPool>> others_;  // see for_streams()
  bool closed_ = false;
};

}  // namespace crossdock::session
