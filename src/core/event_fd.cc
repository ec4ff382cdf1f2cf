#include "core/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock {

EventFd::EventFd(const char* what) : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) throw_errno(errno, std::string("making ") + what);
}

void EventFd::set() const noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that the counter is full: then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

void EventFd::clear() const noexcept {
  std::uint64_t count = 0;
  // EAGAIN only means that nobody has set it.
  [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);
}

}  // namespace crossdock
