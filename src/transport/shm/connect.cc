#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "address.h"
#include "connection.h"
#include "crossdock/core/error.h"
#include "handshake.h"
#include "socket_path.h"
#include "transport/internal/deadline.h"
#include "transport/ways.h"

namespace crossdock::transport {

namespace {

using namespace shm;  // NOLINT(google-build-using-namespace): the private half of this very layer

[[noreturn]] void throw_connect_error(int error, const SocketPath& place) {
  const std::string uri = place.uri();
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      if (!place.name.empty()) {
        throw ConnectionError("no server listens at " + uri + ": this user has no server of this name (" + place.path +
                              " doesn't exist); is it up? For a socket in the current folder write shm:./" +
                              place.name);
      }
      throw ConnectionError("no server listens at " + uri + ": there is no such file; is the server up?");
    case ECONNREFUSED:
      throw ConnectionError("no server listens at " + uri +
                            ": the file there was left by a server that has ended, or is not a socket");
    case EPROTOTYPE:
      throw HandshakeError("the server at " + uri + " is not a Crossdock server: its socket is of another type");
    case EACCES:
    case EPERM:
      throw PermissionError(uri +
                            " doesn't let this user connect: the server must list the user in ShmOptions::other_users "
                            "(in Python users=)");
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
  if (opening == Opening::kRefused) {
    Refused refused;
    if (!decode(packet.content(), &refused))
      throw HandshakeError(where + " refused the connection in a malformed packet");
    throw_refused(refused, where, version, kProtocolVersion);
  }
  if (opening != Opening::kWelcome || packet.too_long) {
    throw HandshakeError(where + " answered with something else: it is not a Crossdock server");
  }
  require_server_version(where, version, kProtocolVersion);
  Welcome welcome;
  if (!decode(packet.content(), &welcome)) throw HandshakeError(where + " answered with a WELCOME that is too short");
  return welcome;
}

/// Throws unless both rings came with the server's answer: ResourceError if a descriptor was lost at this end, else
/// ProtocolError.
void require_rings(const Packet& answer, const std::string& where) {
  if (answer.descriptors_cut) {
    throw ResourceError(where +
                        " passed rings whose descriptors were lost on the way: this process has too many descriptors "
                        "open; raise its limit (ulimit -n)");
  }
  if (answer.descriptors != 2) {
    throw ProtocolError(where + " answered with " + std::to_string(answer.descriptors) +
                        " descriptors instead of two, one for each ring");
  }
}

}  // namespace

std::unique_ptr<Connection> shm_connect(const std::string& address, const ShmOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, const ConnectOptions& wishes) {
  check_options(options);
  if (address.empty()) throw UriError("shm: has no name or path to connect to: use the server's uri");
  const SocketPath place = read_address(address);
  if (!place.name.empty()) check_user_folder();
  const std::string& absolute = place.path;
  const ConnectOptions agreed{.role = wishes.role,
                              .ways = agreed_ways(wishes.ways, kWays, "shm:" + absolute),
                              .device = wishes.device,
                              .keeps_descriptors = wishes.keeps_descriptors};
  const Deadline deadline("shm:" + absolute, timeout_ms, interrupted);
  // The thread that closes a connection of messages serves other peers, too.
  const auto keep =
      agreed.role == ChannelRole::kMessages ? ControlSocket::closed_elsewhere : ControlSocket::closed_here;
  const std::shared_ptr<ControlSocket> socket = keep(connect_socket(place, deadline));
  const Credentials peer = peer_credentials(socket->get(), "shm:" + absolute);
  const std::string where = name_peer(absolute, peer);
  if (!user_allowed(peer.uid, options)) {
    throw PermissionError(where +
                          " is neither this user's server nor root's: to trust it, list its user in "
                          "ShmOptions::other_users (in Python users=)");
  }

  const Hello hello{.features = own_features(),
                    .max_message = options.max_message,
                    .max_body = options.max_body,
                    .role = static_cast<std::uint32_t>(agreed.role),
                    .ways = agreed.ways.bits(),
                    .device = name_of(agreed.device)};
  // A server that rejects at once has already answered and closed the socket. Its answer is a better error than a
  // failure to send, which is therefore ignored.
  send_packet(socket->get(), encode(hello), {}, where);
  Packet answer = await_answer(socket->get(), where, deadline);
  const Welcome welcome = read_answer(answer, where);
  require_rings(answer, where);
  RingMemory own = RingMemory::adopt_own(answer.fds[1].unchecked(), welcome.ring_bytes, where);
  RingMemory theirs = RingMemory::adopt(answer.fds[0].unchecked(), welcome.ring_bytes, where);
  for (PassedFd& ring : answer.fds) ring.unchecked().reset();  // memory files: nobody waits for these
  return std::make_unique<ShmConnection>(socket, std::move(own), std::move(theirs), peer,
                                         introduce(hello, welcome, welcome, agreed, where), hello.device, options);
}

}  // namespace crossdock::transport
