#include "stream_server_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "core/host_name.h"
#include "crossdock/core/error.h"
#include "transport/hosts.h"

namespace crossdock::transport::net {
namespace {

constexpr int kBacklog = SOMAXCONN;  // limited by the system; a client that is dropped there tries again after a second

UniqueFd listen_at(const StreamNames& names, const SocketAddress& endpoint, bool every_address,
                   const SocketOptions& options, int* error) {
  UniqueFd socket(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  *error = errno;
  if (!socket) return {};
  const int yes = 1;
  const int v6_only = every_address ? 0 : 1;
  set_buffers(socket.get(), options, std::string("a ") + names.scheme + " listener");
  const bool listens = ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                       (endpoint.storage.ss_family != AF_INET6 ||
                        ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only) == 0) &&
                       ::bind(socket.get(), endpoint.get(), endpoint.size) == 0 &&
                       ::listen(socket.get(), kBacklog) == 0;
  *error = errno;
  if (!listens) return {};
  return socket;
}

/// Listens at the first address of the name for which this succeeds.
UniqueFd listen_socket(const StreamNames& names, const HostPort& address, const SocketOptions& options) {
  const bool every_address = address.host == "*";
  std::vector<SocketAddress> endpoints = resolve(names.scheme, address);
  if (every_address) {
    const std::vector<SocketAddress> v4 = resolve(names.scheme, {"0.0.0.0", address.port});  // machines without IPv6
    endpoints.insert(endpoints.end(), v4.begin(), v4.end());
  }
  int error = 0;
  for (const SocketAddress& endpoint : endpoints) {
    UniqueFd socket = listen_at(names, endpoint, every_address, options, &error);
    if (socket) return socket;
  }
  const std::string where = to_uri(names.scheme, address.host.empty() ? "127.0.0.1" : address.host, address.port);
  switch (error) {
    case EADDRINUSE:
      throw ConnectionError("can't listen at " + where +
                            ": another process listens there; use port 0 to get a free port");
    case EADDRNOTAVAIL: throw ConnectionError("can't listen at " + where + ": this machine has no such address");
    case EACCES: throw PermissionError("can't listen at " + where + ": this user may not use that port");
    default: throw_errno(error, "listening at " + where);
  }
}

}  // namespace

StreamServerSocket::StreamServerSocket(const StreamNames& names, const std::string& address,
                                       const SocketOptions& options, const std::string& advertised_host,
                                       LogCallback log)
    : ServerSocket(std::move(log)),
      names_(names),
      wrong_tokens_([this](LogLevel level, std::string_view text) { say(level, std::string(text)); }),
      options_(options),
      socket_(listen_socket(names, parse_address(names.scheme, address), options)) {
  const SocketAddress bound = local_address(socket_.get());
  uri_ = where_ = to_uri(names.scheme, bound);
  if (!is_wildcard(bound)) return;
  uri_ = to_uri(names.scheme, advertised_host.empty() ? host_name() : advertised_host, port_of(bound));
  say(LogLevel::kInfo, "listening at every address of this machine, port " + std::to_string(port_of(bound)));
}

void StreamServerSocket::warn_if_open(bool checked) const {
  if (!checked && !is_loopback(local_address(socket_.get()))) say(LogLevel::kWarning, open_address_warning(uri_));
}

std::unique_ptr<PendingHandshake> StreamServerSocket::begin(UniqueFd client) {
  const SocketAddress peer = peer_address(client.get());
  const std::string where = to_uri(names_.scheme, peer);
  set_up(client.get(), options_, where);
  return begin_with(std::move(client), peer, where);
}

}  // namespace crossdock::transport::net
