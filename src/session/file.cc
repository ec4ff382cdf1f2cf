#include "crossdock/session/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <random>

#include "core/text.h"
#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "device/region.h"
#include "ipc/file_writer.h"
#include "session/file_source.h"
#include "session/parallel.h"

namespace crossdock::session {
namespace {

constexpr mode_t kMode = 0666;  // minus the process's umask
constexpr mode_t kPermissions = 07777;
constexpr int kHookIntervalMs = 50;  // between calls of the interrupt hook

/// The new file until it is complete: in the same folder, under a short temporary name, so that the final name may be
/// as long as the system allows.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path) {
    const std::size_t slash = path.rfind('/');
    name_ = slash == std::string::npos ? path : path.substr(slash + 1);
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    folder_.reset(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) throw_errno(errno, "creating " + excerpt(path_, kMostPath));
    std::random_device random;
    constexpr int kAttempts = 100;
    for (int i = 0; i < kAttempts; ++i) {
      temporary_ = ".crossdock-" + std::to_string(random());
      fd_.reset(::openat(folder_.get(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
      if (fd_) return;
      if (errno != EEXIST) break;
    }
    throw_errno(errno, "creating " + excerpt(path_, kMostPath));
  }
  ~NewFile() {
    if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int descriptor() const noexcept { return fd_.get(); }
  void keep_mode(mode_t mode) {
    if (::fchmod(fd_.get(), mode & kPermissions) != 0)
      throw_errno(errno, "giving " + excerpt(path_, kMostPath) + " its mode");
  }
  void finish() {
    // On file systems with delayed writes, close() reports their errors.
    if (::close(fd_.release()) != 0) throw_errno(errno, "closing " + excerpt(path_, kMostPath));
    if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) {
      throw_errno(errno, "renaming the written file to " + excerpt(path_, kMostPath));
    }
    temporary_.clear();
  }

 private:
  std::string path_;  ///< For errors.
  UniqueFd folder_;
  std::string name_;
  std::string temporary_;
  UniqueFd fd_;
};

/// Writes data directly from its memory (writev) to a descriptor, which the caller continues to own. If the descriptor
/// is non-blocking (a pipe), a wait for room calls the hook, and throws InterruptedError if the hook returns true.
class FileSink final : public ipc::Sink {
 public:
  FileSink(int fd, const std::string& name, const transport::InterruptHook& interrupted)
      : fd_(fd), name_(name), interrupted_(interrupted) {}

  void write(std::span<const ByteSpan> pieces) override {
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
        if (errno != EINTR && errno != EAGAIN) throw_errno(errno, "writing to " + name_);
        if (errno == EAGAIN) wait_for_room();
        continue;
      }
      done += static_cast<std::size_t>(written);
      while (!pieces.empty() && done >= pieces.front().size()) {
        done -= pieces.front().size();
        pieces = pieces.subspan(1);
      }
    }
  }

 private:
  void wait_for_room() const {
    pollfd fd{fd_, POLLOUT, 0};
    while (::poll(&fd, 1, kHookIntervalMs) <= 0) {
      if (interrupted_ && interrupted_()) throw InterruptedError("writing to " + name_ + " was interrupted");
    }
  }

  const int fd_;
  const std::string& name_;
  const transport::InterruptHook& interrupted_;
};

/// Resolves the symbolic links of a path. Returns the path itself if the file doesn't exist yet.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real ? real.get() : path;
}

/// Opens a file that isn't a regular one. Waits for a reader of a pipe, as open() would, but in short intervals.
UniqueFd open_special(const std::string& path, const transport::InterruptHook& interrupted) {
  while (true) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd) return fd;
    struct stat status {};
    const int error = errno;
    const bool unread_pipe = error == ENXIO && ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
    if (!unread_pipe && error != EINTR) throw_errno(error, "opening " + excerpt(path, kMostPath) + " for writing");
    if (interrupted && interrupted()) {
      throw InterruptedError("opening " + excerpt(path, kMostPath) +
                             " for writing was interrupted: the pipe has no reader");
    }
    ::poll(nullptr, 0, kHookIntervalMs);
  }
}

WriteResult write_to(int fd, array::BatchStream& source, const std::string& name, const WriteOptions& options,
                     const transport::InterruptHook& interrupted) {
  FileSink sink(fd, name, interrupted);
  ipc::FileWriter writer(&sink, source.schema(),
                         {options.form, options.codec, options.level, run_parallel, options.metadata});
  WriteResult result;
  while (const std::optional<array::RecordBatch> batch = source.next()) {
    writer.write(*batch);
    ++result.batches;
    result.rows += batch->num_rows;
  }
  writer.finish();
  result.bytes = writer.bytes_written();
  return result;
}

}  // namespace

std::unique_ptr<ipc::FileReader> open_file(const std::string& path, const OpenOptions& options) {
  const std::shared_ptr<const device::Region> region = device::Region::open_file(path);
  return std::make_unique<ipc::FileReader>(
      ipc::FileBytes{path, ByteSpan(region->data(), region->size()), region, std::make_shared<FileSource>(region, path),
                     [region] { region->check_unchanged(); }},
      ipc::FileReaderOptions{options.limits, options.validation, run_parallel});
}

WriteResult write_file(array::BatchStream& source, const std::string& path, const WriteOptions& options,
                       const transport::InterruptHook& interrupted) {
  const std::string target = resolved(path);
  struct stat status {};
  const bool there = ::stat(target.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode))
    throw InvalidArgumentError("writing " + excerpt(path, kMostPath) + ": it is a folder");
  if (there && !S_ISREG(status.st_mode)) {
    const UniqueFd fd = open_special(target, interrupted);
    return write_to(fd.get(), source, path, options, interrupted);
  }
  NewFile file(target);
  if (there) file.keep_mode(status.st_mode);
  const WriteResult result = write_to(file.descriptor(), source, path, options, interrupted);
  file.finish();
  return result;
}

}  // namespace crossdock::session
