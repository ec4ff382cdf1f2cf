#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace crossdock::testing {

/// A folder of its own, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string made = std::filesystem::temp_directory_path() / "crossdock-test-XXXXXX";
    if (::mkdtemp(made.data()) == nullptr) std::abort();
    path_ = made;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace crossdock::testing
