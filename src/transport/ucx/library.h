#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api.h"
#include "core/fork.h"
#include "core/library.h"

namespace crossdock::transport::ucx {

/// Returns the names and paths at which UCX's library is looked for: only the path in the environment variable
/// CROSSDOCK_UCX_LIBRARY if it is set; else `first`, then the system's name for the library.
std::vector<std::string> library_candidates(const std::vector<std::string>& first);

/// UCX's library libucp, opened. There is one for each process: UCX's log, signals and options are global, and two of
/// its versions in one process mix up their parts. Every object made through it keeps it. Thread-safe.
class UcxLibrary {
 public:
  /// Returns the library. It is the one that this returned before, if that is still in use. Else it is the one that the
  /// process has loaded already, for another package. Else it is the first of library_candidates(first) that can be
  /// opened and has all functions. Returns null if there is none; then `tried`, unless it is null, has a line for each.
  ///
  /// A library that is opened here leaves the process's signals as they were, and prints nothing: its log lines go to
  /// log_sinks(). The log and signals of a library that another package has loaded are that package's,
  /// and aren't touched.
  static std::shared_ptr<const UcxLibrary> open(const std::vector<std::string>& first, std::vector<std::string>* tried);
  /// Returns the same. Throws UnsupportedError if there is none: its text lists what was tried, and says what to do.
  static std::shared_ptr<const UcxLibrary> require(const std::vector<std::string>& first);

  UcxLibrary(const UcxLibrary&) = delete;
  UcxLibrary& operator=(const UcxLibrary&) = delete;
  ~UcxLibrary();

  const Api& api() const noexcept { return api_; }
  /// The file that the functions are in.
  const std::string& path() const noexcept { return path_; }
  /// As in "1.13.1".
  std::string version() const { return api_.get_version_string(); }
  bool is_at_least(unsigned major, unsigned minor) const noexcept;

  /// Whether it was opened here, so that its options are those that this code needs.
  bool ours() const noexcept { return ours_; }
  /// Marks that UCX has begun to work in this process: from now on, a forked child must not call it.
  void start() const;
  /// True in a child of the process that started UCX.
  bool in_child() const noexcept { return started_.load(std::memory_order_acquire) && guard_->in_child(); }
  /// Throws ForkError in such a child.
  void check_fork() const;

  /// Throws the error for a status that a call returned while `doing`, as in "listening at ucx://127.0.0.1:7700".
  [[noreturn]] void fail(ucs_status_t status, const std::string& doing) const;
  void check(ucs_status_t status, const std::string& doing) const {
    if (status != UCS_OK) fail(status, doing);
  }
  /// The text of a status, as in "Connection reset by remote peer".
  std::string text(ucs_status_t status) const { return api_.status_string(status); }

 private:
  UcxLibrary(std::shared_ptr<Library> library, const Api& api, bool ours);

  const std::shared_ptr<Library> library_;
  const Api api_;
  const bool ours_;  // opened here, not by another package
  std::string path_;
  mutable std::once_flag start_;
  mutable std::optional<ForkGuard> guard_;
  mutable std::atomic<bool> started_{false};  // guard_ is set and may be read
};

}  // namespace crossdock::transport::ucx
