#pragma once

#include <dirent.h>

#include <string>

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
  void TearDown() override { EXPECT_EQ(open_descriptors(), before_) << "the test left descriptors open"; }

 private:
  int before_ = 0;
};

}  // namespace crossdock::testing
