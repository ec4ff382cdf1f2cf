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

/// A fixture that fails a test which leaves a descriptor open.
class NoLeftovers : public ::testing::Test {
 protected:
  void SetUp() override { before_ = open_descriptors(); }
  void TearDown() override {
    // Large regions are closed on a thread of the library's.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (open_descriptors() != before_ && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(open_descriptors(), before_) << "the test left descriptors open";
  }

 private:
  int before_ = 0;
};

}  // namespace crossdock::testing
