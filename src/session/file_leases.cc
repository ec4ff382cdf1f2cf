#include "session/file_leases.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace crossdock::session {
namespace {

void give_up(int fd) noexcept { ::fcntl(fd, F_SETLEASE, F_UNLCK); }

}  // namespace

FileLeases::FileLeases() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGIO);
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return;
  signals_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

FileLeases::~FileLeases() {
  for (const Entry& lease : leases_) {
    if (const auto table = lease.table.lock()) give_up(lease.fd);
  }
}

bool FileLeases::watch(const std::shared_ptr<const PublishedTable>& table) {
  if (!signals_) return false;
  bool granted = false;
  for (const auto& region : table->regions) {
    if (region->kind() != device::RegionKind::kFile) continue;
    const int fd = region->descriptor();
    // So that each lease that is granted is also recorded.
    if (leases_.size() == leases_.capacity()) leases_.reserve(2 * leases_.size() + 1);
    f_owner_ex owner{};
    owner.type = F_OWNER_TID;
    owner.pid = ::gettid();
    if (::fcntl(fd, F_SETOWN_EX, &owner) != 0 || ::fcntl(fd, F_SETSIG, SIGIO) != 0 ||
        ::fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
      continue;
    }
    leases_.push_back({table, fd});
    granted = true;
  }
  return granted;
}

void FileLeases::check_breaks() {
  if (leases_.empty()) return;
  signalfd_siginfo info{};
  bool told = false;
  // Without leases, this costs nothing; with leases, one system call in each round that had nothing else to do.
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) told = true;
  std::erase_if(leases_, [&](Entry& lease) {
    const auto table = lease.table.lock();
    if (!table) return true;  // its descriptor is closed, which ended the lease
    // Standard signals aren't queued: one signal may stand for several breaks, so check every lease.
    if (told && !lease.breaking && ::fcntl(lease.fd, F_GETLEASE) != F_RDLCK) {
      lease.breaking = true;
      table->breaking = true;
    }
    if (!lease.breaking || table->readers > 0) return false;
    give_up(lease.fd);
    // From now on, the file's size and times show whether it may still be read.
    table->breaking = false;
    return true;
  });
}

}  // namespace crossdock::session
