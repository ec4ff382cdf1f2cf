#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "byte_stream.h"
#include "core/unique_fd.h"
#include "record_stream.h"
#include "socket_options.h"
#include "transport/internal/deadline.h"
#include "transport/internal/socket_address.h"

/// Steps of a client that connects by a socket.
namespace crossdock::transport::net {

/// Parses the address of a server. Throws UriError, also for one without a port, or for every address of a machine.
HostPort server_address(std::string_view scheme, const std::string& address);

/// Connects to the first address of the name that answers, and sets the socket's options. `where` names the server in
/// errors. Throws ConnectionError (no such name, or no server there), TimeoutError, InterruptedError, SystemError.
UniqueFd connect_socket(std::string_view scheme, const HostPort& address, const SocketOptions& options,
                        const std::string& where, const Deadline& deadline);

/// Returns the server's next record if it has arrived. Throws HandshakeError if the server sent something else, or has
/// closed the connection.
std::optional<std::vector<std::byte>> next_record(ByteStream& stream, RecordReader& reader, const std::string& where);

}  // namespace crossdock::transport::net
