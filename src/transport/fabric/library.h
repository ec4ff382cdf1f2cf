#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api.h"
#include "core/fork.h"
#include "core/library.h"

namespace crossdock::transport::fabric {

inline constexpr std::uint32_t kApiVersion = FI_VERSION(1, 17);  ///< The version whose rules we follow.

/// Returns the names and paths at which libfabric's library is looked for: only the path in the environment variable
/// CROSSDOCK_FABRIC_LIBRARY if it is set; else `first`, then the system's name for the library.
std::vector<std::string> library_candidates(const std::vector<std::string>& first);

/// Frees a list of fi_info.
struct FreeInfo {
  decltype(Api::freeinfo) free = nullptr;
  void operator()(fi_info* info) const noexcept { free(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// libfabric's library, opened. There is one for each process, and it stays loaded: its providers have settings and
/// code that runs when the process ends. Thread-safe.
class FabricLibrary {
 public:
  /// Returns the library: the one that this returned before, else the first of library_candidates(first) that can be
  /// used. Returns null if there is none; then `tried`, unless it is null, has a line for each.
  static std::shared_ptr<const FabricLibrary> open(const std::vector<std::string>& first,
                                                   std::vector<std::string>* tried);
  /// Returns the same. Throws UnsupportedError if there is none: its text lists what was tried, and says what to do.
  static std::shared_ptr<const FabricLibrary> require(const std::vector<std::string>& first);

  FabricLibrary(const FabricLibrary&) = delete;
  FabricLibrary& operator=(const FabricLibrary&) = delete;

  const Api& api() const noexcept { return api_; }
  /// The file that the functions are in.
  const std::string& path() const noexcept { return path_; }
  /// As in "1.17".
  std::string version() const;

  /// Returns empty hints, to be filled and passed to find(). Throws std::bad_alloc.
  Info make_info() const;
  /// Returns what fits the hints, the best first; null if nothing does. Throws SystemError.
  Info find(const fi_info* hints) const;

  /// Throws the error for what a call returned while `doing`, a negative number, as in "opening an endpoint".
  [[noreturn]] void fail(long result, const std::string& doing) const;
  void check(long result, const std::string& doing) const {
    if (result < 0) fail(result, doing);
  }
  /// The text of an error, as in "Connection reset by peer".
  std::string text(int error) const { return api_.strerror(error); }

 private:
  FabricLibrary(std::shared_ptr<Library> library, const Api& api);

  const std::shared_ptr<Library> library_;
  const Api api_;
  std::string path_;
};

}  // namespace crossdock::transport::fabric
