#pragma once

#include <memory>
#include <string>

#include "core/unique_fd.h"
#include "handshake.h"
#include "socket_options.h"
#include "stream_names.h"
#include "transport/internal/socket_address.h"
#include "transport/internal/socket_listener.h"

namespace crossdock::transport::net {

/// A listening TCP socket. The transport adds the handshake.
class StreamServerSocket : public ServerSocket {
 public:
  /// Listens at `address`, the address of a URI, as in transport/tcp.h. Throws the errors of tcp_listen().
  StreamServerSocket(const StreamNames& names, const std::string& address, const SocketOptions& options,
                     const std::string& advertised_host, LogCallback log);

  int descriptor() const noexcept override { return socket_.get(); }
  std::string uri() const override { return uri_; }
  std::string where() const override { return where_; }
  std::unique_ptr<PendingHandshake> begin(UniqueFd client) final;

 protected:
  /// Begins the handshake with a client, whose socket has its options. `where` names it in logs and errors.
  virtual std::unique_ptr<PendingHandshake> begin_with(UniqueFd client, const SocketAddress& peer,
                                                       const std::string& where) = 0;

  /// Logs a warning if other machines reach the address, and `checked` is false: clients prove neither that they know
  /// a token nor who they are.
  void warn_if_open(bool checked) const;

  const StreamNames names_;
  WrongTokens wrong_tokens_;

 private:
  const SocketOptions options_;
  const UniqueFd socket_;
  std::string where_;
  std::string uri_;
};

}  // namespace crossdock::transport::net
