#include "connect.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::transport::net {
namespace {

/// Connects to one address. Returns an empty descriptor on failure, with the reason in `*error`. Throws TimeoutError,
/// InterruptedError, SystemError.
UniqueFd connect_to(const SocketAddress& endpoint, const SocketOptions& options, const std::string& where,
                    const Deadline& deadline, std::optional<Deadline::Clock::time_point> give_up, int* error) {
  UniqueFd socket(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    *error = errno;
    if (*error == EAFNOSUPPORT) return {};  // a machine without IPv6, for example
    throw_errno(errno, "making a socket for " + where);
  }
  set_buffers(socket.get(), options, where);
  *error = ::connect(socket.get(), endpoint.get(), endpoint.size) == 0 ? 0 : errno;
  if (*error == EINPROGRESS || *error == EINTR) {
    while (!deadline.wait(socket.get(), POLLOUT)) {
      if (!give_up || Deadline::Clock::now() < *give_up) continue;
      *error = ETIMEDOUT;
      return {};
    }
    socklen_t size = sizeof *error;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, error, &size) != 0) *error = errno;
  }
  if (*error != 0) return {};
  return socket;
}

}  // namespace

HostPort server_address(std::string_view scheme, const std::string& address) {
  HostPort to = parse_address(scheme, address);
  const std::string uri = std::string(scheme) + ":" + excerpt(address);
  if (to.port == 0) throw UriError(uri + " has no port to connect to: use the port of the server's uri");
  if (to.host == "*") throw UriError(uri + " stands for every address of a machine: give the address to connect to");
  return to;
}

UniqueFd connect_socket(std::string_view scheme, const HostPort& address, const SocketOptions& options,
                        const std::string& where, const Deadline& deadline) {
  const std::vector<SocketAddress> endpoints = resolve(scheme, address);
  std::string tried;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    int error = 0;
    UniqueFd socket = connect_to(endpoints[i], options, where, deadline, deadline.share(endpoints.size() - i), &error);
    if (socket) {
      set_up(socket.get(), options, where);
      return socket;
    }
    const std::string why = error == ECONNREFUSED ? "no server listens" : std::generic_category().message(error);
    tried += (tried.empty() ? "" : "; ") + host_of(endpoints[i]) + ": " + why;
  }
  throw ConnectionError("can't connect to " + where + " (" + tried + "); is the server up, and does it listen there?");
}

std::optional<std::vector<std::byte>> next_record(ByteStream& stream, RecordReader& reader, const std::string& where) {
  switch (reader.read(stream)) {
    case RecordReader::State::kRecord: return reader.next();
    case RecordReader::State::kForeign:
      throw HandshakeError(where + " answered with something else: it is not a Crossdock server");
    case RecordReader::State::kEnd:
      throw HandshakeError(where + " closed the connection instead of answering: is it a Crossdock server?");
    case RecordReader::State::kNothing: break;
  }
  return std::nullopt;
}

}  // namespace crossdock::transport::net
