#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "../deadline.h"
#include "address.h"
#include "crossdock/core/error.h"
#include "handshake.h"
#include "socket_path.h"

namespace crossdock::transport {

namespace {

using namespace shm;  // NOLINT(google-build-using-namespace): the private half of this very layer

[[noreturn]] void throw_connect_error(int error, const SocketPath& place) {
  const std::string uri = place.uri();
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      if (!place.name.empty()) {
        throw NotFoundError("nobody listens at " + uri + ": this user has no server of this name (no " + place.path +
                            "); is it up? For a socket in the current folder write shm:./" + place.name);
      }
      throw NotFoundError("nobody listens at " + uri + ": there is no such file; is the server up?");
    case ECONNREFUSED:
      throw ConnectionError("nobody listens at " + uri +
                            " any more: what is there was left by a server that is gone, or is no socket");
    case EPROTOTYPE:
      throw HandshakeError("what listens at " + uri + " is no Crossdock server: a socket of another type");
    case EACCES:
    case EPERM:
      throw PermissionError(uri + " doesn't let this user connect: the server must name it in ShmOptions::other_users");
    default: throw_errno(error, "connecting to " + uri);
  }
}

UniqueFd connect_socket(const SocketPath& place, const Deadline& deadline) {
  const std::string& path = place.path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) throw_errno(errno, "making a socket for shm:" + path);
  for (;;) {
    // Blocking, with a time limit: a full queue of the server can only be waited for by a blocking connect().
    const int slice = deadline.slice();
    const timeval limit{.tv_sec = 0, .tv_usec = slice * 1000 - 1};
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) {
      throw_errno(errno, "setting a time limit for shm:" + path);
    }
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) break;
    if (errno != EAGAIN && errno != EINTR) throw_connect_error(errno, place);
  }
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    throw_errno(errno, "setting up the socket of shm:" + path);
  }
  return socket;
}

/// Waits for the server's answer and returns it.
Packet await_answer(int socket, const std::string& where, const Deadline& deadline) {
  for (;;) {
    Packet packet;
    switch (receive_packet(socket, &packet, where)) {
      case Received::kPacket: return packet;
      case Received::kEnd:
        throw HandshakeError(where + " closed the connection instead of answering: is it a Crossdock server?");
      case Received::kNothing: break;
    }
    deadline.wait(socket, POLLIN);
  }
}

Welcome read_answer(const Packet& packet, const std::string& where) {
  std::uint32_t version = 0;
  const Opening opening = opening_of(packet.content(), &version);
  const auto versions = [&] {
    return "it speaks version " + std::to_string(version) + " of the protocol, we speak version " +
           std::to_string(kProtocolVersion);
  };
  if (opening == Opening::kRefused) {
    Refused refused;
    if (!decode(packet.content(), &refused)) throw HandshakeError(where + " refused us in a malformed packet");
    const std::string what = where + " refused us: " + refused.reason;
    switch (refused.code) {
      case Refusal::kUser: throw PermissionError(what);
      case Refusal::kResources: throw ConnectionError(what);
      case Refusal::kOtherVersion: throw HandshakeError(what + " (" + versions() + ")");
      case Refusal::kMalformed: break;
    }
    throw HandshakeError(what);
  }
  if (opening != Opening::kWelcome || packet.too_long) {
    throw HandshakeError(where + " answered with something else: it is no Crossdock server");
  }
  if (version != kProtocolVersion) throw HandshakeError(where + ": " + versions());
  Welcome welcome;
  if (!decode(packet.content(), &welcome)) throw HandshakeError(where + " answered with a welcome that is too short");
  return welcome;
}

/// Throws unless both rings came with the server's answer: ResourceError if a descriptor was lost at this end, else
/// ProtocolError.
void require_rings(const Packet& answer, const std::string& where) {
  if (answer.descriptors_cut) {
    throw ResourceError(where +
                        " passed rings that were cut off in passing: this process has too many descriptors open; raise "
                        "its limit (ulimit -n)");
  }
  if (answer.descriptors != 2) {
    throw ProtocolError(where + " answered with " + std::to_string(answer.descriptors) +
                        " descriptors, not with those of two rings");
  }
}

}  // namespace

std::unique_ptr<Connection> shm_connect(const std::string& address, const ShmOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, ChannelRole role) {
  check_options(options);
  if (address.empty()) throw UriError("shm: has no name and no path to connect to: take the server's uri");
  const SocketPath place = read_address(address);
  if (!place.name.empty()) check_user_folder();
  const std::string& absolute = place.path;
  const Deadline deadline("shm:" + absolute, timeout_ms, interrupted);
  UniqueFd socket = connect_socket(place, deadline);
  const Credentials peer = peer_credentials(socket.get(), "shm:" + absolute);
  const std::string where = name_peer(absolute, peer);
  if (!user_allowed(peer.uid, options)) {
    throw PermissionError(where +
                          " isn't this user's server nor root's: name it in ShmOptions::other_users to trust it");
  }

  const Hello hello{.features = own_features(),
                    .max_message = options.max_message,
                    .max_body = options.max_body,
                    .role = static_cast<std::uint32_t>(role)};
  // A server that rejects at once has already answered and closed the socket. Its answer is a better error than a
  // failure to send, which is therefore ignored.
  send_packet(socket.get(), encode(hello), {}, where);
  const Packet answer = await_answer(socket.get(), where, deadline);
  const Welcome welcome = read_answer(answer, where);
  require_rings(answer, where);
  return join(ControlSocket::of_client(std::move(socket)),
              RingMemory::adopt_own(answer.fds[1], welcome.ring_bytes, where),
              RingMemory::adopt(answer.fds[0], welcome.ring_bytes, where),
              {.peer_features = welcome.features,
               .max_message = options.max_message,
               .peer_max_message = welcome.max_message,
               .peer_max_body = welcome.max_body,
               .role = role,
               .want_data = welcome.want_data,
               .free_data = welcome.free_data,
               .peer = peer,
               .where = where},
              options);
}

}  // namespace crossdock::transport
