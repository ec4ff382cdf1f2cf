#include "core/user_info.h"

#include <gtest/gtest.h>

namespace crossdock {
namespace {

TEST(UserInfo, IsLeftOutOfUris) {
  EXPECT_EQ(without_user("tcp://me:secret@host:7700"), "tcp://...@host:7700");
  EXPECT_EQ(without_user("tcp://se@cret@host:7700/a?b=c"), "tcp://...@host:7700/a?b=c");
  EXPECT_EQ(without_user("//:secret@"), "//...@");
  EXPECT_EQ(without_user("tcp:secret@host:1"), "tcp:...@host:1");
  EXPECT_EQ(without_user("secret@host:1"), "...@host:1");
}

TEST(UserInfo, IsNothingElse) {
  for (const char* uri :
       {"", "tcp:", "tcp://host:7700", "shm:/run/a@b.sock", "https://host/a@b", "tcp://host?at=a@b", "//"}) {
    EXPECT_EQ(without_user(uri), uri);
  }
}

}  // namespace
}  // namespace crossdock
