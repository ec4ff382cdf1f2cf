#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "context.h"
#include "core/bytes.h"
#include "core/unique_fd.h"
#include "transport/net/byte_stream.h"
#include "wire.h"

namespace crossdock::transport::net::tls {

/// A TLS connection over a socket, from its first byte on. First call handshake() until it is complete, on one thread.
///
/// Afterwards one thread may read while another one writes. OpenSSL doesn't allow that for one SSL object, so a lock
/// protects the object; it is held while one record is encrypted or decrypted, in memory, and never while the socket is
/// used. Bytes are encrypted straight from the caller's memory and decrypted straight into it, in records of 16 KiB;
/// small parts are gathered into one record.
///
/// read() throws as throw_read_failure() says, and SystemError. write() throws SystemError.
class Stream final : public SocketStream {
 public:
  enum class State : std::uint8_t {
    kComplete,
    kWaiting,  ///< For bytes of the peer, or, while wants_room(), for room in the socket.
    kEnd,      ///< The peer has disconnected.
    kPlain,    ///< The peer's first bytes are a record of this protocol, without TLS. None of them was answered.
  };
  using Binding = std::array<char, 32>;
  /// So many records are encrypted with one key: below the limits of AES-GCM, 2^24.5 (RFC 8446, 5.5).
  static constexpr std::uint64_t kRecordsPerKey = 1 << 22;

  /// `where` names the peer in errors, and `server_name` is, at a client, the name that the server's certificate must
  /// have. Throws ResourceError, InvalidArgumentError (a name that can't be one).
  Stream(UniqueFd socket, std::string where, std::shared_ptr<const Context> context, std::string server_name = {},
         std::uint64_t records_per_key = kRecordsPerKey);
  ~Stream() override;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Continues the handshake, without waiting. Throws PermissionError (a certificate), HandshakeError, ProtocolError;
  /// the peer was told by an alert then, if there was room. After kPlain or an error, use plain() alone.
  State handshake();
  /// Whether handshake() can't continue before the socket has room.
  bool wants_room() const noexcept { return !wire_.output().empty(); }
  /// The socket below, for a peer that speaks no TLS.
  Socket& plain() noexcept { return socket_; }
  /// Returns bytes that only the two ends of this connection know ("tls-exporter", RFC 9266): equal at both, and
  /// different if somebody in between has a connection of its own with each. After the handshake. Throws SystemError.
  Binding binding() const;

  IoResult read(std::span<const iovec> parts) override;
  IoResult write(std::span<const iovec> parts) override;
  int get() const noexcept override { return socket_.get(); }
  bool holds_input() const noexcept override;
  bool touches_memory() const noexcept override { return true; }
  /// Sends close_notify.
  void finish() noexcept override;

 private:
  struct FreeSession {
    void operator()(ssl_st* session) const noexcept;
  };
  enum class Decrypted : std::uint8_t { kBytes, kNothing, kStarved, kClosed };
  class Offer;

  void require_name();
  void require_protocol() const;
  IoResult fill();
  Decrypted decrypt(std::byte* to, std::size_t size, std::size_t* got);
  bool encrypt(Offer* offer);
  bool encrypt_record(ByteSpan bytes);
  IoResult send_output();
  void send_control() noexcept;

  Socket socket_;
  const std::string where_;
  const std::shared_ptr<const Context> context_;
  const std::string name_;
  const std::uint64_t records_per_key_;
  Wire wire_;
  bool knows_tls_ = false;  // the peer's first bytes are no record of this protocol without TLS

  // Of the thread that reads:
  std::optional<IoResult> ended_;

  // The order of the locks. Of the thread that writes; others only try it, to send what TLS itself has to say.
  std::mutex send_mutex_;
  std::size_t encrypted_ = 0;  // bytes of the caller in the output that weren't reported as written
  std::uint64_t records_ = 0;  // since the last key
  bool broken_ = false;        // nothing can be encrypted any more

  mutable std::mutex session_mutex_;  // of the SSL object, and of the wire's output
  const std::unique_ptr<ssl_st, FreeSession> session_;
};

}  // namespace crossdock::transport::net::tls
