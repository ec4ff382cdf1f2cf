#include "byte_stream.h"

#include <sys/socket.h>

#include <cerrno>

#include "crossdock/core/error.h"

namespace crossdock::transport::net {
namespace {

/// Whether this error means that the connection has ended.
bool is_end(int error) noexcept {
  switch (error) {
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case ECONNABORTED:
    case ECONNREFUSED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN: return true;
    default: return false;
  }
}

msghdr message_of(std::span<const iovec> parts) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // the calls don't change it
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

IoResult Socket::read(std::span<const iovec> parts) {
  msghdr message = message_of(parts);
  for (;;) {
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (got > 0) return {IoResult::State::kBytes, static_cast<std::size_t>(got)};
    if (got == 0) return {IoResult::State::kEnd};
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {};
    if (is_end(errno)) return {IoResult::State::kEnd, 0, errno};
    throw_errno(errno, "receiving from " + where_);
  }
}

IoResult Socket::write(std::span<const iovec> parts) {
  const msghdr message = message_of(parts);
  for (;;) {
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {IoResult::State::kBytes, static_cast<std::size_t>(sent)};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) return {};
    if (is_end(errno) || errno == EFAULT) return {IoResult::State::kEnd, 0, errno};
    throw_errno(errno, "sending to " + where_);
  }
}

}  // namespace crossdock::transport::net
