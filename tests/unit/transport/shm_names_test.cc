// A server's name: where its socket is, who may take it, what a killed server leaves, and what no name may be.

#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "shm_support.h"
#include "support/scoped_variable.h"
#include "transport/shm/socket_path.h"

namespace crossdock::transport::shm_test {
namespace {

/// $XDG_RUNTIME_DIR of its own, with the folder of names below it.
class ShmNames : public ::testing::Test {
 protected:
  ~ShmNames() override {
    if (::access(names().c_str(), F_OK) != 0) return;
    ADD_FAILURE() << names() << " was left behind";
  }
  std::string names() const { return runtime_folder / "crossdock"; }
  std::string socket(const std::string& name) const { return names() + "/" + name + ".sock"; }

  const TemporaryFolder runtime_folder;
  const testing::ScopedVariable runtime{"XDG_RUNTIME_DIR", runtime_folder.path().c_str()};
};

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string picked(int n = 1) {
  return "crossdock-" + std::to_string(::getpid()) + (n == 1 ? "" : "-" + std::to_string(n));
}

template <typename Expected>
std::string thrown(const std::function<void()>& run) {
  try {
    run();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Listens at `address` in a child, and kills it. Returns the URI that it had.
std::string killed_server(const std::string& address) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  Child child([&] {
    const auto listener = shm_listen(address, 0, 0, {}, nullptr);
    const std::string uri = listener->uri();
    require(::write(ends[1], uri.data(), uri.size()) == static_cast<ssize_t>(uri.size()), "saying where");
    ::pause();
  });
  char uri[200];
  const ssize_t size = ::read(ends[0], uri, sizeof uri);
  child.kill();
  ::close(ends[0]);
  ::close(ends[1]);
  return {uri, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

TEST_F(ShmNames, ANameIsInTheUsersOwnFolderWhereverOneIs) {
  auto listener = shm_listen("flights", 0, 0, {}, nullptr);
  EXPECT_EQ(listener->uri(), "shm:flights");
  EXPECT_EQ(mode_of(names()), 0700U);
  EXPECT_EQ(mode_of(socket("flights")), 0600U);
  EXPECT_FALSE(exists("flights"));
  EXPECT_EQ(shm_names(), std::vector<std::string>{"flights"});

  for (const std::string& address : {std::string("flights"), socket("flights")}) {
    std::unique_ptr<Connection> client;
    std::thread connecting([&] { client = shm_connect(address, {}, 5000, nullptr); });
    EXPECT_TRUE(accept_one(*listener));
    connecting.join();
    EXPECT_TRUE(client);
  }
  listener.reset();
  EXPECT_TRUE(shm_names().empty());
}

TEST_F(ShmNames, TheFolderStaysForAsLongAsAServerIsInIt) {
  auto first = shm_listen("a", 0, 0, {}, nullptr);
  auto second = shm_listen("b", 0, 0, {}, nullptr);
  first.reset();
  EXPECT_TRUE(exists(socket("b")));
}

TEST_F(ShmNames, ServersThatComeAndGoDontTakeTheFolderFromEachOther) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int n = 0; n < 100; ++n) EXPECT_NO_THROW(shm_listen("server" + std::to_string(i), 0, 0, {}, nullptr));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ShmNames, PicksShortNames) {
  const auto first = shm_listen("", 0, 0, {}, nullptr);
  const auto second = shm_listen("", 0, 0, {}, nullptr);
  EXPECT_EQ(first->uri(), "shm:" + picked());
  EXPECT_EQ(second->uri(), "shm:" + picked(2));
  EXPECT_TRUE(exists(socket(picked(2))));
}

TEST_F(ShmNames, ALiveServerKeepsItsName) {
  const auto live = shm_listen("flights", 0, 0, {}, nullptr);
  const std::string text = thrown<ConnectionError>([] { shm_listen("flights", 0, 0, {}, nullptr); });
  EXPECT_TRUE(has(text, "shm:flights is in use")) << text;
  EXPECT_TRUE(has(text, "another name")) << text;
  Child other([] {
    try {
      shm_listen("flights", 0, 0, {}, nullptr);
    } catch (const ConnectionError&) {
      return;
    }
    throw std::runtime_error("took a live server's name");
  });
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(ShmNames, AKilledServersNameIsTakenOver) {
  EXPECT_EQ(killed_server("flights"), "shm:flights");
  ASSERT_TRUE(exists(socket("flights"))) << "left behind";
  EXPECT_TRUE(has(thrown<ConnectionError>([] { shm_connect("flights", {}, 1000, nullptr); }),
                  "no server listens at shm:flights: the file there"));
  const auto next = shm_listen("flights", 0, 0, {}, nullptr);
  EXPECT_EQ(next->uri(), "shm:flights");
}

TEST_F(ShmNames, WhatKilledServersLeftGoesWithTheNextThatPicksAName) {
  const auto alive = shm_listen("alive", 0, 0, {}, nullptr);
  killed_server("");
  killed_server("flights");
  EXPECT_EQ(shm_names().size(), 3U);
  const auto next = shm_listen("", 0, 0, {}, nullptr);
  EXPECT_EQ(shm_names(), (std::vector<std::string>{"alive", picked()})) << "a live server's stays";
}

TEST_F(ShmNames, ANameThatNobodyHasIsNotFound) {
  const std::string text = thrown<ConnectionError>([] { shm_connect("flights", {}, 1000, nullptr); });
  EXPECT_TRUE(has(text, "shm:flights")) << text;
  EXPECT_TRUE(has(text, socket("flights"))) << text;
  EXPECT_TRUE(has(text, "shm:./flights")) << text;
  EXPECT_TRUE(shm_names().empty());
}

TEST_F(ShmNames, WhatIsNoNameIsRefused) {
  const std::string longest(shm::kMaxName, 'n');
  EXPECT_NO_THROW(shm_listen(longest, 0, 0, {}, nullptr));
  EXPECT_NO_THROW(shm_listen("0.A_b-9", 0, 0, {}, nullptr));
  for (const std::string& name :
       {std::string("."), std::string(".."), std::string(".hidden"), std::string("-o"), std::string("_x"),
        std::string("a b"), std::string("a\nb"), std::string("a\x1b[31m"), std::string("a\\b"), std::string("~"),
        std::string("fl\xC3\xBCge"), std::string("\xFF\xFE"), std::string("a?b"), std::string("a:b"), std::string("*"),
        longest + "n", std::string(100'000, 'n')}) {
    for (const auto& use : {std::function([&] { shm_listen(name, 0, 0, {}, nullptr); }),
                            std::function([&] { shm_connect(name, {}, 100, nullptr); })}) {
      const std::string text = thrown<UriError>(use);
      EXPECT_LT(text.size(), 500U) << "bounded";
      EXPECT_FALSE(has(text, "\x1b") || has(text, "\n")) << "printable";
      EXPECT_TRUE(has(text, "at most 48")) << text;
    }
  }
  for (const std::string& name : {std::string("@a"), std::string("a\0b", 3), std::string("\0", 1)}) {
    EXPECT_TRUE(has(thrown<UriError>([&] { shm_listen(name, 0, 0, {}, nullptr); }), "abstract"));
    EXPECT_TRUE(has(thrown<UriError>([&] { shm_connect(name, {}, 100, nullptr); }), "abstract"));
  }
  EXPECT_FALSE(exists(names()));
}

TEST_F(ShmNames, TwoSlashesAreRefusedWithTheRightSpelling) {
  for (const auto& [address, spelling] : std::vector<std::pair<std::string, std::string>>{
           {"//flights", "write shm:flights"},
           {"///tmp/x.sock", "write shm:/tmp/x.sock"},
           {"//tmp/x.sock", "write shm:/tmp/x.sock"},
           {"//", "write shm:NAME"},
           {"////", "write shm:NAME"},
       }) {
    for (const auto& use : {std::function([address = address] { shm_listen(address, 0, 0, {}, nullptr); }),
                            std::function([address = address] { shm_connect(address, {}, 100, nullptr); })}) {
      const std::string text = thrown<UriError>(use);
      EXPECT_TRUE(text.ends_with(spelling)) << text;
    }
  }
}

TEST_F(ShmNames, APathInAFolderThatIsNotThereSaysSo) {
  const std::string text = thrown<NotFoundError>([&] { shm_listen("/tmp/no-such-folder/x.sock", 0, 0, {}, nullptr); });
  EXPECT_TRUE(has(text, "the folder of shm:/tmp/no-such-folder/x.sock doesn't exist (/tmp/no-such-folder)")) << text;
}

TEST_F(ShmNames, AnAddressWithASlashNeverLeadsIntoTheFolderOfNames) {
  // "../x" is a path from the current folder, as any program takes it: no name can leave the folder.
  EXPECT_EQ(shm::read_address("../x").name, "");
  EXPECT_EQ(shm::read_address("a/../b").name, "");
  EXPECT_FALSE(shm::read_address("../x").path.starts_with(runtime_folder.path()));
}

TEST_F(ShmNames, OtherUsersCantReachANameSoItIsRefusedForThem) {
  const std::string text = thrown<UriError>([] { shm_listen("flights", 0, 0, {.any_user = true}, nullptr); });
  EXPECT_TRUE(has(text, "/path/to/flights.sock")) << text;
  const auto picked_path = shm_listen("", 0, 0, {.any_user = true}, nullptr);
  EXPECT_TRUE(picked_path->uri().starts_with("shm:/tmp/crossdock-")) << picked_path->uri();
}

// --- the folder ---

TEST_F(ShmNames, AFolderThatOthersCanEnterIsRefusedBothWays) {
  for (const mode_t mode : {0755, 0770, 0701}) {
    ASSERT_EQ(::mkdir(names().c_str(), 0700), 0);
    ASSERT_EQ(::chmod(names().c_str(), mode), 0);
    for (const auto& use :
         {std::function([] { shm_listen("flights", 0, 0, {}, nullptr); }),
          std::function([] { shm_connect("flights", {}, 100, nullptr); }), std::function([] { shm_names(); })}) {
      const std::string text = thrown<PermissionError>(use);
      EXPECT_TRUE(has(text, names())) << text;
      EXPECT_TRUE(has(text, "chmod 700")) << text;
    }
    // A picked address needs no name.
    EXPECT_TRUE(shm_listen("", 0, 0, {}, nullptr)->uri().starts_with("shm:/tmp/crossdock-"));
    ASSERT_EQ(::rmdir(names().c_str()), 0);
  }
}

TEST_F(ShmNames, ALinkInTheFoldersPlaceIsRefused) {
  const TemporaryFolder elsewhere;
  ASSERT_EQ(::symlink(elsewhere.path().c_str(), names().c_str()), 0);
  EXPECT_THROW(shm_listen("flights", 0, 0, {}, nullptr), PermissionError);
  EXPECT_THROW(shm_connect("flights", {}, 100, nullptr), PermissionError);
  ASSERT_EQ(::unlink(names().c_str()), 0);
  EXPECT_TRUE(elsewhere.entries().empty());
}

TEST_F(ShmNames, AnotherUsersFolderIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "making another user's folder takes root";
  ASSERT_EQ(::mkdir(names().c_str(), 0700), 0);
  ASSERT_EQ(::chown(names().c_str(), kNobody, kNobody), 0);
  EXPECT_TRUE(has(thrown<PermissionError>([] { shm_listen("flights", 0, 0, {}, nullptr); }), "user 65534"));
  EXPECT_THROW(shm_connect("flights", {}, 100, nullptr), PermissionError);
  EXPECT_TRUE(shm_listen("", 0, 0, {}, nullptr)->uri().starts_with("shm:/tmp/crossdock-"));
  ASSERT_EQ(::rmdir(names().c_str()), 0);
}

TEST(ShmUserFolder, IsElsewhereWhereTheRuntimeFolderIsNotFit) {
  const TemporaryFolder others_write;
  ASSERT_EQ(::chmod(others_write.path().c_str(), 0777), 0);
  const std::string too_long = "/tmp/" + std::string(60, 'x');
  ::mkdir(too_long.c_str(), 0700);
  for (const char* runtime : {static_cast<const char*>(nullptr), "", "relative", "/nowhere/at/all",
                              others_write.path().c_str(), too_long.c_str()}) {
    const testing::ScopedVariable variable("XDG_RUNTIME_DIR", runtime);
    const std::string uid = std::to_string(::geteuid());
    const std::string folder = shm::user_folder();
    EXPECT_TRUE(folder == "/run/user/" + uid + "/crossdock" || folder == "/tmp/crossdock-" + uid) << folder;
    const auto listener = shm_listen("", 0, 0, {}, nullptr);
    EXPECT_TRUE(exists(shm::socket_of_name(listener->uri().substr(4)).path));
    EXPECT_EQ(mode_of(folder), 0700U);
  }
  ::rmdir(too_long.c_str());
  EXPECT_TRUE(others_write.entries().empty());
}

TEST(ShmUserFolder, TheFolderOfAKilledServerForOthersGoesWithTheNext) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Child child([&] {
    const auto listener = shm_listen("", 0, 0, {.any_user = true}, nullptr);
    const std::string path = path_of(*listener);
    require(::write(ends[1], path.data(), path.size()) == static_cast<ssize_t>(path.size()), "saying where");
    ::pause();
  });
  char buffer[200];
  const ssize_t size = ::read(ends[0], buffer, sizeof buffer);
  child.kill();
  ::close(ends[0]);
  ::close(ends[1]);
  const std::string left(buffer, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  ASSERT_TRUE(left.starts_with("/tmp/crossdock-")) << left;
  const auto next = shm_listen("", 0, 0, {.any_user = true}, nullptr);
  EXPECT_FALSE(exists(left.substr(0, left.rfind('/'))));
  EXPECT_TRUE(exists(path_of(*next)));
}

}  // namespace
}  // namespace crossdock::transport::shm_test
