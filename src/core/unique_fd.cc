#include "core/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "crossdock/core/error.h"

namespace crossdock {

void UniqueFd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

UniqueFd UniqueFd::duplicate() const {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw_errno(errno, "duplicating a descriptor");
  return UniqueFd(copy);
}

}  // namespace crossdock
