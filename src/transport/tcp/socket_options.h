#pragma once

#include <string>

#include "transport/tcp.h"

namespace crossdock::transport::tcp {

/// Throws InvalidArgumentError for options that can't work.
void check_options(const TcpOptions& options);

/// Sets the buffer sizes. Call it before connecting or listening, because the window scale is fixed then. Throws
/// SystemError.
void set_buffers(int socket, const TcpOptions& options, const std::string& where);

/// Sets the options of a connected socket: no delay, keepalive probes, time limits, and no pacing within the machine.
/// Throws SystemError.
void set_up(int socket, const TcpOptions& options, const std::string& where);

/// Whether the peer's address is a loopback address or equal to this end's own. False if the peer has disconnected.
bool is_on_this_machine(int socket) noexcept;

/// Ends the connection so that sent bytes still reach the peer. The system would discard them if a socket were closed
/// with unread bytes, so bytes that have already arrived are read and dropped first. Doesn't wait.
void shut_down(int socket) noexcept;

}  // namespace crossdock::transport::tcp
