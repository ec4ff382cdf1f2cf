// Memory that a thread of the library's frees.

#include "core/release.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

namespace crossdock {
namespace {

/// Says which thread it went on.
std::shared_ptr<void> noting(std::thread::id* thread) {
  return {thread, [](std::thread::id* at) { *at = std::this_thread::get_id(); }};
}

TEST(Release, LargeMemoryGoesOnAThreadOfTheLibrarys) {
  std::thread::id thread;
  release_memory(noting(&thread), 1 << 20);
  wait_for_released();
  EXPECT_NE(thread, std::thread::id());
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(Release, SmallMemoryGoesAtOnce) {
  std::thread::id thread;
  release_memory(noting(&thread), 1 << 10);
  EXPECT_EQ(thread, std::this_thread::get_id());
}

}  // namespace
}  // namespace crossdock
