#include "device/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/memory_limit.h"
#include "core/release.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "device/internal/listed_mappings.h"
#include "device/memfd.h"
#include "device/region_address.h"

namespace crossdock::device {

using memfd::inspect;

namespace {

FileStamp stamp_of(const struct stat& status) noexcept {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = status.st_size,
          .mtime_ns = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec,
          .ctime_ns = status.st_ctim.tv_sec * kNanoseconds + status.st_ctim.tv_nsec};
}

/// Returns the differences for a message, as in "its size changed from 10 to 4, ..."; empty if there are none.
std::string difference(const FileStamp& before, const FileStamp& now) {
  std::string text;
  const auto compare = [&text](const char* what, auto old_value, auto new_value) {
    if (old_value == new_value) return;
    if (!text.empty()) text += ", ";
    text +=
        std::string("its ") + what + " changed from " + std::to_string(old_value) + " to " + std::to_string(new_value);
  };
  compare("device", before.device, now.device);
  compare("inode", before.inode, now.inode);
  compare("size", before.size, now.size);
  compare("modification time (ns)", before.mtime_ns, now.mtime_ns);
  return text;
}

/// Returns the path of an open file, as the system knows it.
std::string path_behind(int fd) {
  char path[4096];
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "(unknown path)";
}

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw ProtocolError(where + ": the peer sent a descriptor that can't be trusted: " + why);
}

void check_readable(int fd, const std::string& where) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) throw_errno(errno, where + ": inspecting the descriptor");
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) refuse(where, "it isn't open for reading");
}

}  // namespace

FileStamp FileStamp::of(int fd) { return stamp_of(inspect(fd, "a file's stamp")); }

Region::~Region() {
  attachments_.clear();  // these may use the memory
  record_ = {};          // before another mapping can have these addresses
  // A recycled mapping doesn't exist in a forked child: another mapping may have its addresses there.
  const bool ours = kind_ != RegionKind::kRecycled || !made_in_.in_child();
  if (kind_ == RegionKind::kDevice) return;
  if (data_ != nullptr && (kind_ != RegionKind::kFrozen || source_)) listed::remove(data_);
  release_memory(ours ? data_ : nullptr, mapped_, std::move(fd_), size_);
}

void Region::map(int fd, std::uint64_t size, int protection, const std::string& where) {
  const int flags = source_ ? MAP_PRIVATE : MAP_SHARED;
  void* start = ::mmap(nullptr, size, protection, flags, fd, 0);
  if (start == MAP_FAILED && errno == ENOMEM && wait_for_released()) {
    start = ::mmap(nullptr, size, protection, flags, fd, 0);
  }
  if (start == MAP_FAILED) {
    throw ResourceError(where + ": mapping " + std::to_string(size) +
                        " bytes: " + std::generic_category().message(errno) +
                        "; check the limits: ulimit -v and the number of mappings (vm.max_map_count)");
  }
  data_ = static_cast<const std::byte*>(start);
  mapped_ = size_ = size;
  if (kind_ != RegionKind::kFrozen || source_) listed::add(data_, size, kind_, source_);
  // Forked children would otherwise share the mapping and the producer's writes.
  if (kind_ == RegionKind::kRecycled && ::madvise(start, size, MADV_DONTFORK) != 0) {
    throw_errno(errno, where + ": keeping a mapping from forked children");
  }
}

std::shared_ptr<const Region> Region::adopt(UniqueFd&& fd, RegionKind kind, std::uint64_t size, const FileStamp& stamp,
                                            const std::string& where, Descriptor descriptor) {
  if (kind != RegionKind::kFrozen && kind != RegionKind::kRecycled && kind != RegionKind::kFile) {
    refuse(where, std::to_string(static_cast<int>(kind)) + " is not a kind of region");
  }
  if (size == 0) refuse(where, "a region of 0 bytes was announced");
  if (size > std::uint64_t{1} << kOffsetBits) {
    refuse(where, "a region of " + std::to_string(size) + " bytes was announced, more than 2^48");
  }
  check_readable(fd.get(), where);
  if (kind == RegionKind::kFile) {
    const struct stat status = inspect(fd.get(), where);
    if (!S_ISREG(status.st_mode)) refuse(where, "it isn't a regular file");
    if (stamp.size < 0 || static_cast<std::uint64_t>(stamp.size) != size) {
      refuse(where,
             "a file of " + std::to_string(stamp.size) + " bytes was announced as a region of " + std::to_string(size));
    }
    if (const FileStamp now = stamp_of(status); now != stamp) {
      throw FileChangedError(where + ": the file changed after it was served: " + difference(stamp, now) +
                             "; serve it again, or with stable=\"snapshot\"");
    }
  } else {
    // Asks for the seals before anything else: the system itself answers that, where a file system of the peer's own
    // may never answer.
    const int seals = kind == RegionKind::kFrozen ? memfd::kFrozenSeals : memfd::kRecycledSeals;
    if (const std::string fault = memfd::fault_of(fd, seals, size, where); !fault.empty()) refuse(where, fault);
  }

  std::shared_ptr<Region> region(new Region);
  region->kind_ = kind;
  region->name_ = where;
  if (kind == RegionKind::kFile) region->stamp_ = stamp;
  region->map(fd.get(), size, PROT_READ, where);
  const bool file = kind == RegionKind::kFile;
  region->record_ = {region->data_, size, file ? MappingKind::kFile : MappingKind::kMemory,
                     file ? path_behind(fd.get()) + ", " + where : where};
  UniqueFd taken = std::move(fd);
  if (descriptor == Descriptor::kKeep) {
    region->fd_ = std::move(taken);
    if (kind == RegionKind::kRecycled) listed::set_source(region->data_, region);
  }
  return region;
}

std::shared_ptr<const Region> Region::map_private(const std::shared_ptr<const Region>& source,
                                                  const std::string& where) {
  std::shared_ptr<Region> region(new Region);
  region->kind_ = source->kind_;
  region->name_ = where;
  region->source_ = source;
  region->map(source->descriptor(), source->size(), PROT_READ | PROT_WRITE, where);
  region->writable_ = true;
  return region;
}

std::shared_ptr<const Region> Region::open_file(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw InvalidArgumentError("a file's path is empty or has a NUL byte");
  }
  const std::string where = "opening the file " + excerpt(path, kMostPath);
  const auto check = [&](const struct stat& status) {
    if (!S_ISREG(status.st_mode)) {
      throw InvalidArgumentError(excerpt(path, kMostPath) + " isn't a regular file; give an Arrow IPC file");
    }
    if (status.st_size == 0) {
      throw InvalidArgumentError(excerpt(path, kMostPath) + " is empty; give an Arrow IPC file");
    }
  };
  // Checks the file before it is opened, because opening a device can have effects; and afterwards, because the path
  // may name another file by then (a fifo, on which a blocking open would hang).
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOTDIR) throw NotFoundError(where + ": a part of the path isn't a directory");
    throw_errno(errno, where);
  }
  check(status);
  std::shared_ptr<Region> region(new Region);
  region->fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!region->fd_) throw_errno(errno, where);
  status = inspect(region->fd_.get(), where);
  check(status);
  region->kind_ = RegionKind::kFile;
  region->stamp_ = stamp_of(status);
  region->name_ = path;
  region->map(region->fd_.get(), static_cast<std::uint64_t>(status.st_size), PROT_READ, where);
  region->record_ = {region->data_, region->size_, MappingKind::kFile, path};
  return region;
}

std::shared_ptr<Region> Region::make_recycled(std::uint64_t size, const char* name) {
  if (size == 0) throw InvalidArgumentError("a region must have at least one byte");
  const std::string where = "making the recycled region \"" + std::string(name) + "\"";
  check_memory_room(size, "a region of recycled memory");
  const UniqueFd fd = memfd::create(name);
  memfd::resize(fd, size, name);
  std::shared_ptr<Region> region(new Region);
  region->kind_ = RegionKind::kRecycled;
  region->name_ = name;
  region->map(fd.get(), size, PROT_READ | PROT_WRITE, where);
  region->writable_ = true;
  // Faulting in by madvise() reports a lack of memory; with MAP_POPULATE it would be a SIGBUS at the first write.
  if (::madvise(const_cast<std::byte*>(region->data_), size, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINVAL) {  // before Linux 5.14
      memfd::fill_holes(fd, 0, size, name);
    } else {
      throw ResourceError(where + ": no memory for " + std::to_string(size) + " bytes");
    }
  }
  memfd::seal(fd, memfd::kRecycledSeals, name);
  region->fd_ = memfd::reopen_read_only(fd, name);
  return region;
}

std::shared_ptr<const Region> Region::of_device(std::shared_ptr<Context> context, Buffer memory) {
  std::shared_ptr<Region> region(new Region);
  region->kind_ = RegionKind::kDevice;
  region->name_ = "memory of " + to_string(context->device());
  region->data_ = static_cast<const std::byte*>(memory.data());
  region->size_ = memory.size();
  region->context_ = std::move(context);
  region->memory_ = std::move(memory);
  return region;
}

bool Region::contains(const void* pointer, std::uint64_t size) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto start = reinterpret_cast<std::uintptr_t>(data_);
  return data_ != nullptr && at >= start && at - start <= size_ && size <= size_ - (at - start);
}

std::shared_ptr<void> Region::attachment(const void* key, const std::function<std::shared_ptr<void>()>& make) const {
  const auto find = [&] {
    return std::ranges::find(attachments_, key, [](const auto& attached) { return attached.first; });
  };
  {
    const std::lock_guard lock(attachments_mutex_);
    if (const auto found = find(); found != attachments_.end()) return found->second;
  }
  std::shared_ptr<void> made = make();  // outlives the lock below: another thread may have been faster
  const std::lock_guard lock(attachments_mutex_);
  if (const auto found = find(); found != attachments_.end()) return found->second;
  return attachments_.emplace_back(key, std::move(made)).second;
}

void Region::check_unchanged() const {
  if (kind_ != RegionKind::kFile || !fd_) return;
  if (const FileStamp now = FileStamp::of(fd_.get()); now != stamp_) {
    throw FileChangedError("the file " + excerpt(name_, kMostPath) + " changed while it was served: " +
                           difference(stamp_, now) + "; serve it again, or with stable=\"snapshot\"");
  }
}

std::shared_ptr<const Region> readable(const std::shared_ptr<const Region>& region, const std::string& where) {
  static const char mapping = 0;  // its address is the attachment's key
  if (region->data() != nullptr) return region;
  return std::static_pointer_cast<const Region>(region->attachment(&mapping, [&] {
    UniqueFd descriptor(::fcntl(region->descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!descriptor) throw_errno(errno, "mapping " + where);
    return std::const_pointer_cast<Region>(
        Region::adopt(std::move(descriptor), region->kind(), region->size(), {}, where));
  }));
}

}  // namespace crossdock::device
