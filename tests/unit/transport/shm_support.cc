#include "shm_support.h"

#include <thread>

#include "support/leftovers.h"
#include "transport/shm/control_socket.h"

namespace crossdock::transport::shm_test {

Pair connected_pair(const ShmOptions& server, const ShmOptions& client, const ConnectOptions& wishes) {
  const TemporaryFolder folder;
  const auto listener = shm_listen(folder / "s.sock", 1, 2, server, nullptr);
  Pair pair;
  std::exception_ptr failure;
  std::thread connecting([&] {
    try {
      pair.client = shm_connect(folder / "s.sock", client, 5000, nullptr, wishes);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  pair.server = accept_one(*listener);
  connecting.join();
  if (failure) std::rethrow_exception(failure);
  return pair;
}

namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace

UniqueFd listening_socket(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 5) != 0) {
    throw_errno(errno, "listening on a raw socket");
  }
  return socket;
}

RawSocket::RawSocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = address_of(path);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw_errno(errno, "connecting a raw socket");
  }
}

void send_descriptors(int socket, ByteSpan bytes, const std::vector<int>& descriptors) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(64 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) throw_errno(errno, "sending on a raw socket");
}

int descriptors_when_closed() {
  while (shm::ControlSocket::waiting_to_close() > 0) std::this_thread::yield();
  return testing::open_descriptors();
}

std::vector<std::byte> RawSocket::receive() const {
  const timeval limit{5, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::vector<std::byte> bytes(1024);
  ssize_t size = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
  if (size < 0 && errno == ECONNRESET) size = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return bytes;
}

}  // namespace crossdock::transport::shm_test
