// Where a server listens, what it leaves behind, and who may come.

#include <sys/stat.h>

#include <thread>

#include "shm_support.h"

namespace crossdock::transport::shm_test {
namespace {

TEST(ShmAddress, ListensAtThePathAndLeavesNothing) {
  const TemporaryFolder folder;
  {
    const auto listener = shm_listen(folder / "s.sock", 3, 4, {}, nullptr);
    EXPECT_EQ(listener->uri(), "shm:" + (folder / "s.sock"));
    EXPECT_EQ(mode_of(folder / "s.sock"), 0600U);
    EXPECT_EQ(folder.entries().size(), 2U) << "the socket and its lock";
  }
  EXPECT_TRUE(folder.entries().empty());
}

TEST(ShmAddress, TheModeIsNarrowWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  const auto listener = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
  ::umask(077);
  const auto open_to_all = shm_listen(folder / "t.sock", 0, 0, {.any_user = true}, nullptr);
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "s.sock"), 0600U);
  EXPECT_EQ(mode_of(folder / "t.sock"), 0666U);
}

TEST(ShmAddress, TheUriIsEncoded) {
  const TemporaryFolder folder;
  const auto listener = shm_listen(folder / "a b?c%d\xC3\xA4.sock", 0, 0, {}, nullptr);
  EXPECT_TRUE(listener->uri().ends_with("/a%20b%3Fc%25d%C3%A4.sock")) << listener->uri();
}

TEST(ShmAddress, RelativePathsBecomeAbsolute) {
  const TemporaryFolder folder;
  std::array<char, 4096> before{};
  ASSERT_NE(::getcwd(before.data(), before.size()), nullptr);
  ASSERT_EQ(::chdir(folder.path().c_str()), 0);
  {
    const auto listener = shm_listen("./s.sock", 0, 0, {}, nullptr);
    ASSERT_EQ(::chdir(before.data()), 0);
    EXPECT_EQ(path_of(*listener), folder / "./s.sock");
  }
  EXPECT_TRUE(folder.entries().empty()) << "removed from where it was, not from where we are";
}

TEST(ShmAddress, PathsOverTheLimitAreRefusedWithBothLengths) {
  const TemporaryFolder folder;
  const std::string fits = folder / std::string(107 - folder.path().size() - 1, 'x');
  ASSERT_EQ(fits.size(), 107U);
  EXPECT_NO_THROW(shm_listen(fits, 0, 0, {}, nullptr));
  try {
    shm_listen(fits + "x", 0, 0, {}, nullptr);
    FAIL();
  } catch (const UriError& error) {
    EXPECT_NE(std::string(error.what()).find("108"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("107"), std::string::npos) << error.what();
  }
  EXPECT_THROW(shm_connect(fits + "x", {}, 100, nullptr), UriError);
  EXPECT_TRUE(folder.entries().empty());
}

TEST(ShmAddress, AbstractSocketsAreRefused) {
  for (const std::string& path : {std::string("@name"), std::string("\0name", 5), std::string("/tmp/a\0b", 8)}) {
    EXPECT_THROW(shm_listen(path, 0, 0, {}, nullptr), UriError);
    EXPECT_THROW(shm_connect(path, {}, 100, nullptr), UriError);
  }
  EXPECT_THROW(shm_connect("", {}, 100, nullptr), UriError);
}

TEST(ShmAddress, NobodyThereIsNotFound) {
  const TemporaryFolder folder;
  EXPECT_THROW(shm_connect(folder / "s.sock", {}, 1000, nullptr), ConnectionError);
  EXPECT_THROW(shm_connect(folder / "no/such/folder.sock", {}, 1000, nullptr), ConnectionError);
  EXPECT_THROW(shm_listen(folder / "no/such/folder.sock", 0, 0, {}, nullptr), NotFoundError);
}

TEST(ShmAddress, AFileThatIsNoSocketIsLeftAlone) {
  const TemporaryFolder folder;
  const UniqueFd file(::open((folder / "precious").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_THROW(shm_listen(folder / "precious", 0, 0, {}, nullptr), UriError);
  EXPECT_THROW(shm_connect(folder / "precious", {}, 1000, nullptr), ConnectionError);
  EXPECT_EQ(folder.entries(), std::vector<std::string>{"precious"});
}

TEST(ShmAddress, ALiveServerKeepsItsPath) {
  const TemporaryFolder folder;
  const auto live = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
  EXPECT_THROW(shm_listen(folder / "s.sock", 0, 0, {}, nullptr), ConnectionError);
  Child other([&] {
    try {
      shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
    } catch (const ConnectionError&) {
      return;
    }
    throw std::runtime_error("took a live server's path");
  });
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(folder.entries().size(), 2U);
}

TEST(ShmAddress, AStaleSocketOfAKilledServerIsTakenOver) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  Child killed([&] {
    const auto listener = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
    require(::write(ready[1], "x", 1) == 1, "saying ready");
    ::pause();
  });
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  killed.kill();
  ASSERT_EQ(folder.entries().size(), 2U) << "left behind";
  EXPECT_THROW(shm_connect(folder / "s.sock", {}, 1000, nullptr), ConnectionError);
  {
    const auto next = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
    std::unique_ptr<Connection> client;
    std::thread connecting([&] { client = shm_connect(folder / "s.sock", {}, 5000, nullptr); });
    EXPECT_TRUE(accept_one(*next));
    connecting.join();
  }
  EXPECT_TRUE(folder.entries().empty());
}

TEST(ShmAddress, ManyServersRaceForAStaleSocketAndOneWins) {
  const TemporaryFolder folder;
  {
    Child killed([&] {
      const auto listener = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
      ::raise(SIGKILL);
    });
    EXPECT_EQ(killed.wait(), -SIGKILL);
  }
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  std::vector<std::unique_ptr<Child>> racers;
  for (int i = 0; i < 8; ++i) {
    racers.push_back(std::make_unique<Child>([&] {
      ::close(go[1]);
      char byte;
      [[maybe_unused]] const ssize_t end = ::read(go[0], &byte, 1);
      try {
        const auto listener = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
        ::raise(SIGSTOP);
      } catch (const ConnectionError&) {
        ::_exit(7);
      }
    }));
  }
  ::close(go[0]);
  ::close(go[1]);
  int winners = 0;
  for (auto& racer : racers) {
    int status = 0;
    ASSERT_EQ(::waitpid(racer->pid(), &status, WUNTRACED), racer->pid());
    if (WIFSTOPPED(status)) {
      ++winners;
    } else {
      EXPECT_EQ(WEXITSTATUS(status), 7);
    }
  }
  EXPECT_EQ(winners, 1);
}

TEST(ShmAddress, AnotherProgramsSocketIsLeftAlone) {
  const TemporaryFolder folder;
  const UniqueFd other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "s.sock";
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(other.get(), 5), 0);
  EXPECT_THROW(shm_listen(path, 0, 0, {}, nullptr), ConnectionError);
  EXPECT_THROW(shm_connect(path, {}, 1000, nullptr), HandshakeError);
  EXPECT_EQ(folder.entries(), std::vector<std::string>{"s.sock"});
}

TEST(ShmAddress, ASocketThatWasReplacedIsNotRemoved) {
  const TemporaryFolder folder;
  auto listener = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
  ASSERT_EQ(::unlink((folder / "s.sock").c_str()), 0);
  const UniqueFd file(::open((folder / "s.sock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  listener.reset();
  EXPECT_EQ(folder.entries(), std::vector<std::string>{"s.sock"});
}

// --- other users: needs root, to become one ---

class ShmOtherUser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "becoming another user takes root";
    ASSERT_EQ(::chmod(folder.path().c_str(), 0711), 0);
  }
  static void become_nobody() { require(::setgid(kNobody) == 0 && ::setuid(kNobody) == 0, "becoming another user"); }
  template <typename E>
  static void expect_thrown(const std::function<void()>& run) {
    try {
      run();
    } catch (const E&) {
      return;
    }
    throw std::runtime_error("nothing was thrown");
  }
  TemporaryFolder folder;
};

TEST_F(ShmOtherUser, CannotConnectByTheSocketsMode) {
  const auto listener = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
  Child other([&] {
    become_nobody();
    expect_thrown<PermissionError>([&] { shm_connect(folder / "s.sock", {}, 1000, nullptr); });
  });
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(ShmOtherUser, IsTurnedAwayByItsCredentialsWhereTheModeWouldLetItIn) {
  Log log;
  const auto listener = shm_listen(folder / "s.sock", 0, 0, {.other_users = {12345}}, log.callback());
  Child other([&] {
    become_nobody();
    expect_thrown<PermissionError>([&] { shm_connect(folder / "s.sock", {}, 5000, nullptr); });
  });
  EXPECT_FALSE(accept_one(*listener, 500));
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(log.says("user 65534 may not connect"));
}

TEST_F(ShmOtherUser, IsServedWhereItIsNamed) {
  const auto listener = shm_listen(folder / "s.sock", 0, 0, {.other_users = {kNobody}}, nullptr);
  Child other([&] {
    become_nobody();
    const auto client = shm_connect(folder / "s.sock", {}, 5000, nullptr);  // root's servers are trusted
    require(!client->agreement().same_user, "same_user");
    send_or_throw(*client, as_bytes("hello"));
    receive_or_throw(*client);
  });
  const auto server = accept_one(*listener);
  ASSERT_TRUE(server);
  EXPECT_FALSE(server->agreement().same_user);
  EXPECT_EQ(server->agreement().peer_uid, kNobody);
  EXPECT_EQ(as_text(receive_or_throw(*server)), "hello");
  const auto recycled = device::Region::make_recycled(4096, "test");
  EXPECT_THROW(server->announce(0, recycled), PermissionError) << "another user can only be given frozen memory";
  send_or_throw(*server, as_bytes("bye"));
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(ShmOtherUser, AServerOfAnotherUserIsNotTrustedUnlessNamed) {
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  Child server([&] {
    become_nobody();
    const auto listener = shm_listen(folder / "s.sock", 0, 0, {}, nullptr);
    require(::write(ready[1], "x", 1) == 1, "saying ready");
    const auto first = accept_one(*listener, 1000);
    const auto second = accept_one(*listener, 5000);
    require(first || second, "nobody connected");
    ::_exit(0);  // the folder's owner cleans up
  });
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  EXPECT_THROW(shm_connect(folder / "s.sock", {}, 5000, nullptr), PermissionError);
  EXPECT_TRUE(shm_connect(folder / "s.sock", {.other_users = {kNobody}}, 5000, nullptr));
  EXPECT_EQ(server.wait(), 0);
}

TEST_F(ShmOtherUser, AFolderMadeForOthersLetsThemThrough) {
  const auto listener = shm_listen("", 0, 0, {.any_user = true}, nullptr);
  const std::string path = path_of(*listener);
  EXPECT_EQ(mode_of(path.substr(0, path.rfind('/'))), 0711U);
  Child other([&] {
    become_nobody();
    require(shm_connect(path, {}, 5000, nullptr) != nullptr, "connect");
  });
  EXPECT_TRUE(accept_one(*listener));
  EXPECT_EQ(other.wait(), 0);
}

}  // namespace
}  // namespace crossdock::transport::shm_test
