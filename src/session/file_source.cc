#include "session/file_source.h"

#include <unistd.h>

#include <cerrno>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::session {

void FileSource::read(std::int64_t offset, MutableByteSpan to) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(region_->descriptor(), to.data(), to.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, "reading " + excerpt(path_, kMostPath));
    if (n == 0) {
      region_->check_unchanged();
      throw FileChangedError("the file " + excerpt(path_, kMostPath) + " ends at byte " + std::to_string(offset) +
                             ", before its size: it was truncated while it was read");
    }
    to = to.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

}  // namespace crossdock::session
