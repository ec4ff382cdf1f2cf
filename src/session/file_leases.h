#pragma once

#include <memory>
#include <vector>

#include "crossdock/core/unique_fd.h"
#include "session/published_table.h"

namespace crossdock::session {

/// Read leases (fcntl F_SETLEASE) on the files that a server serves by descriptor, where the system grants them: for
/// the owner of a file that nobody has open for writing. Whoever wants to write or cut such a file is then held up by
/// the kernel, for at most its lease-break time, while streams end and consumers free what they have of it. Made
/// and used on one thread, the server's I/O thread.
///
/// The kernel tells of a break by a signal. It is directed at that thread alone, blocked there, and read from a
/// descriptor: no handler is installed, and no other thread ever sees it.
class FileLeases {
 public:
  /// Never throws for want of leases: without them files are served all the same.
  FileLeases();
  ~FileLeases();
  FileLeases(const FileLeases&) = delete;
  FileLeases& operator=(const FileLeases&) = delete;

  /// Takes a lease for each file of the table, if the system grants it. True if it did.
  bool watch(const std::shared_ptr<const PublishedTable>& table);
  /// Marks the tables whose files somebody wants to write, and lets him when nobody reads them any more.
  void look();
  /// Readable when a lease is being broken; -1 without any.
  int descriptor() const noexcept { return signals_.get(); }

 private:
  struct Entry {
    std::weak_ptr<const PublishedTable> table;
    int fd;  // the region's, as long as the table lives
    bool breaking = false;
  };
  UniqueFd signals_;
  std::vector<Entry> leases_;
};

}  // namespace crossdock::session
