#pragma once

#include <string>

#include "crossdock/transport/tcp.h"

namespace crossdock::transport::tcp {

/// Throws InvalidArgumentError for options that can't work.
void check_options(const TcpOptions& options);

/// Buffer sizes: before connecting or listening, since the window's scale is fixed then. Throws SystemError.
void set_buffers(int socket, const TcpOptions& options, const std::string& where);

/// What a connected socket needs: no delay, probes, time limits, and no pacing within the machine. Throws SystemError.
void set_up(int socket, const TcpOptions& options, const std::string& where);

/// Whether the peer's address is of the loopback, or this end's own. False of a peer that has gone.
bool is_on_this_machine(int socket) noexcept;

/// The polite end: what was sent still reaches the peer. Closing a socket with bytes unread would have the system throw
/// it away, so those that are there are dropped first. Doesn't wait.
void shut_down(int socket) noexcept;

}  // namespace crossdock::transport::tcp
