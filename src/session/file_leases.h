#pragma once

#include <memory>
#include <vector>

#include "core/unique_fd.h"
#include "session/published_table.h"

namespace crossdock::session {

/// Read leases (fcntl F_SETLEASE) on the files that a server publishes by descriptor. The system grants a lease to the
/// owner of a file that no process has open for writing. The kernel then blocks a process that wants to write or
/// truncate the file, for at most its lease-break time. Meanwhile streams end and consumers free their leases of the
/// file's memory. Made and used on one thread, the server's I/O thread.
///
/// The kernel reports a lease break by a signal. The signal is directed at that thread alone, blocked there, and read
/// from a descriptor: no handler is installed, and no other thread ever sees it.
class FileLeases {
 public:
  /// Never throws if leases are unavailable: without them, files are published all the same.
  FileLeases();
  ~FileLeases();
  FileLeases(const FileLeases&) = delete;
  FileLeases& operator=(const FileLeases&) = delete;

  /// Takes a lease for each file of the table. Returns true if the system granted it.
  bool watch(const std::shared_ptr<const PublishedTable>& table);
  /// Marks the tables whose files another process wants to write, and ends the lease once a table has no readers.
  void check_breaks();
  /// Readable when a lease is being broken; -1 without any.
  int descriptor() const noexcept { return signals_.get(); }

 private:
  struct Entry {
    std::weak_ptr<const PublishedTable> table;
    int fd;  // descriptor of the region, as long as the table lives
    bool breaking = false;
  };
  UniqueFd signals_;
  std::vector<Entry> leases_;
};

}  // namespace crossdock::session
