#pragma once

#include <string>

namespace crossdock::transport::net {

/// The options of a socket, as in TcpOptions.
struct SocketOptions {
  int send_buffer = 0;
  int receive_buffer = 0;
  int keepalive_s = 0;
  int user_timeout_ms = 0;
};

/// Sets the buffer sizes. Call it before connecting or listening, because the window scale is fixed then. Throws
/// SystemError.
void set_buffers(int socket, const SocketOptions& options, const std::string& where);

/// Sets the options of a connected socket: no delay, keepalive probes, time limits, and no pacing within the machine.
/// Throws SystemError.
void set_up(int socket, const SocketOptions& options, const std::string& where);

/// Whether the peer's address is a loopback address or equal to this end's own. False if the peer has disconnected.
bool is_on_this_machine(int socket) noexcept;

/// Ends the connection so that sent bytes still reach the peer. The system would discard them if a socket were closed
/// with unread bytes, so bytes that have already arrived are read and dropped first. Doesn't wait.
void shut_down(int socket) noexcept;

}  // namespace crossdock::transport::net
