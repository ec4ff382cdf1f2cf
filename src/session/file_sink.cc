#include "session/file_sink.h"

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "crossdock/core/error.h"

namespace crossdock::session {

void FileSink::write(std::span<const ByteSpan> pieces) {
  constexpr std::size_t kMostPieces = 256;  // below the system's limit, which is 1,024
  std::array<iovec, kMostPieces> vectors;
  std::size_t done = 0;  // bytes written of the first piece
  while (!pieces.empty()) {
    std::size_t n = 0;
    for (const ByteSpan piece : pieces.first(std::min(pieces.size(), kMostPieces))) {
      const std::size_t skip = n == 0 ? done : 0;
      vectors[n++] = {const_cast<std::byte*>(piece.data()) + skip, piece.size() - skip};
    }
    const ssize_t written = ::writev(fd_, vectors.data(), static_cast<int>(n));
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        wait_for_room();
        continue;
      }
      throw_errno(errno, "writing to " + name_);
    }
    done += static_cast<std::size_t>(written);
    while (!pieces.empty() && done >= pieces.front().size()) {
      done -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
  }
}

void FileSink::wait_for_room() const {
  constexpr int kPatienceMs = 50;  // interval between calls of the hook
  pollfd fd{fd_, POLLOUT, 0};
  while (::poll(&fd, 1, kPatienceMs) <= 0) {
    if (interrupted_ && interrupted_()) throw InterruptedError("writing to " + name_ + " was interrupted");
  }
}

}  // namespace crossdock::session
