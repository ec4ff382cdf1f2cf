#include "session/file_source.h"

#include <unistd.h>

#include <cerrno>

#include "crossdock/core/error.h"

namespace crossdock::session {

void FileSource::read(std::int64_t offset, MutableByteSpan to) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(region_->descriptor(), to.data(), to.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, "reading " + path_);
    if (n == 0) {
      region_->check_unchanged();
      throw FileChangedError("the file " + path_ + " ends at byte " + std::to_string(offset) +
                             ", before its size: it was truncated while it was read");
    }
    to = to.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

}  // namespace crossdock::session
