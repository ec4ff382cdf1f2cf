#pragma once

#include <dirent.h>

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace crossdock::testing {

inline int open_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  int count = -1;  // the folder's own
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count;
}

/// Returns true once as many descriptors are open as before; false if that isn't so after 20 s. Threads of the library
/// close some, of large memory for example, and nothing tells when the last of them has.
inline bool open_again_as_before(int before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (open_descriptors() != before) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// A fixture that fails a test which leaves a descriptor open.
class NoLeftovers : public ::testing::Test {
 protected:
  void SetUp() override { before_ = open_descriptors(); }
  void TearDown() override { EXPECT_TRUE(open_again_as_before(before_)) << "the test left descriptors open"; }

 private:
  int before_ = 0;
};

}  // namespace crossdock::testing
