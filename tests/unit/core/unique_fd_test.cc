#include "core/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <type_traits>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock {
namespace {

static_assert(!std::is_copy_constructible_v<UniqueFd>, "two owners of one descriptor must not compile");

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesWithItsOwner) {
  int number = -1;
  {
    const UniqueFd fd(open_null());
    number = fd.get();
    ASSERT_TRUE(fd);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, MovesItsDescriptor) {
  UniqueFd first(open_null());
  const int number = first.get();
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT: a moved-from UniqueFd is empty by contract
  EXPECT_EQ(second.get(), number);
  UniqueFd third(open_null());
  const int closed = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), number);
  EXPECT_FALSE(is_open(closed));
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFd, ReleasesAndResets) {
  UniqueFd fd(open_null());
  const int number = fd.release();
  EXPECT_FALSE(fd);
  EXPECT_TRUE(is_open(number));
  fd.reset(number);
  fd.reset();
  EXPECT_FALSE(is_open(number));
  fd.reset();
  EXPECT_EQ(fd.get(), -1);
}

TEST(UniqueFd, ADuplicateIsAnotherDescriptorClosedOnExec) {
  const UniqueFd fd(open_null());
  const UniqueFd copy = fd.duplicate();
  EXPECT_NE(copy.get(), fd.get());
  EXPECT_EQ(::fcntl(copy.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(UniqueFd, NothingCantBeDuplicated) { EXPECT_THROW(UniqueFd().duplicate(), SystemError); }

}  // namespace
}  // namespace crossdock
