#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/channel_role.h"
#include "crossdock/core/log.h"
#include "records.h"
#include "transport/internal/handshake.h"
#include "transport/internal/socket_address.h"

/// The handshake of the transports over a network, without its input and output: the transport carries the records.
namespace crossdock::transport::net {

/// The reason that a client gets if its first bytes are no HELLO.
inline constexpr std::string_view kNoHello = "the client sent no HELLO: it is not a Crossdock client";

/// The names that differ from one transport to another.
struct HandshakeNames {
  std::string_view options;      ///< Of the structure with the token, for errors: "TcpOptions".
  std::string_view client_role;  ///< In the client's proof of the token.
  std::string_view server_role;
};

/// Returns the features that say what a client wishes; its transport has the ways `have`. Throws UnsupportedError if it
/// wants none of these; `where` names the server.
std::uint64_t features_of(const ConnectOptions& wishes, Ways have, const std::string& where);
/// Returns what both ends agreed on, for introduce(): the client's role, the ways, and whether it wants parts. The ways
/// may be none.
ConnectOptions agreed_wishes(ChannelRole role, std::uint64_t client_features, std::uint64_t server_features);

/// The client's end.
class ClientHandshake {
 public:
  /// `where` names the server in errors.
  ClientHandshake(const Hello& hello, std::string token, const HandshakeNames& names, std::string where);

  /// The record to send first.
  const std::vector<std::byte>& opening() const noexcept { return opening_; }
  /// Takes the server's next record. Returns the record to answer with; empty: none. Throws HandshakeError,
  /// PermissionError (the token), ConnectionError (the server is full), SystemError.
  std::vector<std::byte> advance(std::vector<std::byte> record);
  bool complete() const noexcept { return complete_; }
  /// The server's acceptance, once the handshake is complete.
  const Welcome& welcome() const noexcept { return welcome_; }

 private:
  void check_welcome(ByteSpan record) const;

  const std::string token_;
  const HandshakeNames names_;
  const std::string where_;
  const bool has_token_;
  const std::vector<std::byte> opening_;
  std::vector<std::byte> challenge_;
  Welcome welcome_;
  bool complete_ = false;
};

class ServerHandshake;

/// The clients of one server that gave a wrong token and wait for the answer. Use it from one thread.
class WrongTokens {
 public:
  explicit WrongTokens(LogCallback log) : log_(std::move(log)) {}

 private:
  friend class ServerHandshake;
  const LogCallback log_;
  std::vector<const ServerHandshake*> waiting_;
};

/// The server's end, for one client.
class ServerHandshake {
 public:
  /// `where` names the client in logs. `names`, `token` and `wrong_tokens` are the server's, and must outlive this.
  ServerHandshake(const HandshakeNames& names, const std::string& token, WrongTokens& wrong_tokens,
                  const SocketAddress& peer, std::string where, Serves serves = Serves::kStreams);
  ServerHandshake(const ServerHandshake&) = delete;
  ServerHandshake& operator=(const ServerHandshake&) = delete;
  ~ServerHandshake();

  /// Takes the client's next record. Returns the record to answer with; empty: the client has said everything. Throws
  /// Rejection, ProtocolError, SystemError.
  std::vector<std::byte> advance(std::vector<std::byte> record);
  /// Whether an accepted client has proved that it knows a token.
  bool proves() const noexcept { return !token_.empty(); }
  /// Returns the record that accepts the client, with the server's proof. Throws SystemError.
  std::vector<std::byte> accept(Welcome welcome) const;

  const Hello& hello() const noexcept { return hello_; }
  ChannelRole role() const noexcept { return role_; }

 private:
  std::vector<std::byte> read_opening(std::vector<std::byte> record);
  void check_proof(ByteSpan record);

  const HandshakeNames& names_;
  const std::string& token_;
  WrongTokens& wrong_tokens_;
  const SocketAddress peer_;
  const std::string where_;
  const Serves serves_;
  Hello hello_;
  ChannelRole role_{};
  std::vector<std::byte> opening_;  // its HELLO, if the server has a token
  std::vector<std::byte> challenge_;
};

}  // namespace crossdock::transport::net
