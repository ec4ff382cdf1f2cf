// Two processes: death, and fork.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "support.h"
#include "support/process.h"

namespace crossdock::transport::ucx_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

/// The program ucx_peer. Killed with its owner.
class Peer {
 public:
  explicit Peer(const char* mode) {
    int out[2];
    if (::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const UniqueFd read(out[0]);
    UniqueFd write(out[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, write.get(), STDOUT_FILENO);
    const std::array<const char*, 3> arguments = {CROSSDOCK_UCX_PEER, mode, nullptr};
    const int error =
        ::posix_spawn(&pid_, arguments[0], &actions, nullptr, const_cast<char* const*>(arguments.data()), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("ucx_peer wasn't started");
    write.reset();
    std::string line;
    for (char c = 0; ::read(read.get(), &c, 1) == 1 && c != '\n';) line += c;
    port_ = static_cast<std::uint16_t>(std::stoi(line));
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    if (pid_ > 0) kill();
  }

  pid_t pid() const { return pid_; }
  SocketAddress address() const { return resolve("ucx", {"127.0.0.1", port_}).at(0); }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
};

class UcxProcesses : public ::testing::Test {
 protected:
  void start(const char* mode) {
    peer_ = std::make_unique<Peer>(mode);
    client_.worker = std::make_shared<Worker>(contexts_.for_remote(peer_->address()), kLimits, "the server");
    client_.endpoint = Endpoint::connect(client_.worker, peer_->address());
    ASSERT_TRUE(client_.endpoint->send_untagged(as_bytes("hello"), {}));
    std::optional<Received> accepted;
    ASSERT_TRUE(run([&] { return (accepted = client_.worker->take()).has_value(); }));
    ASSERT_EQ(accepted->kind, MessageKind::kControl);
  }
  bool run(const std::function<bool()>& done, int timeout_ms = 20'000) {
    return run_until({client_.worker.get()}, nullptr, done, timeout_ms);
  }
  /// Kills the peer, and expects the failure within a second.
  void expect_death() {
    const auto before = Clock::now();
    peer_->kill();
    EXPECT_TRUE(run([&] { return client_.endpoint->failure().has_value(); }, 5000));
    EXPECT_LT(Clock::now() - before, std::chrono::seconds(1));
    EXPECT_THROW(client_.endpoint->send_untagged(as_bytes("x"), {}), ConnectionError);
  }

  UcxContexts contexts_{UcxOptions{}};
  std::unique_ptr<Peer> peer_;
  End client_;
};

TEST_F(UcxProcesses, MessagesOfAllSizesCrossAndReturn) {
  start("echo");
  for (const std::size_t size : {0u, 1u, 5000u, 70'000u, 1u << 20, 16u << 20}) {
    const std::vector<std::byte> sent = pattern(size, 3);
    const std::array<ByteSpan, 2> parts = {ByteSpan(sent).first(size / 5), ByteSpan(sent).subspan(size / 5)};
    ASSERT_TRUE(client_.endpoint->send_body(size, parts, nullptr));
    std::optional<Received> got;
    ASSERT_TRUE(run([&] { return (got = client_.worker->take()).has_value(); }));
    EXPECT_EQ(got->tag, size);
    EXPECT_TRUE(same(got->bytes, sent)) << size;
  }
}

/// What a process has of the ways in which UCX shares memory: mappings of segments (posix, sysv) and of xpmem's device.
std::vector<std::string> shared_memory_of(pid_t pid) {
  std::vector<std::string> found;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  EXPECT_TRUE(maps.is_open());
  for (std::string line; std::getline(maps, line);) {
    for (const char* what : {"/dev/shm/", "/SYSV", "/dev/xpmem"}) {
      if (line.find(what) != std::string::npos) found.push_back(line);
    }
  }
  return found;
}

/// The transports that a context of UCX may use, as UCX prints them.
std::string transports_of(const UcxContext& context) {
  void* const library = ::dlopen(context.library().path().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  const auto print = reinterpret_cast<decltype(&::ucp_context_print_info)>(::dlsym(library, "ucp_context_print_info"));
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const to = ::open_memstream(&text, &size);
  print(context.get(), to);
  std::fclose(to);
  std::string out(text, size);
  std::free(text);
  ::dlclose(library);
  return out;
}

bool mentions_shared_memory(const std::string& transports) {
  return std::ranges::any_of(std::array{" posix/", " sysv/", " cma/", " xpmem/", " knem/"},
                             [&](const char* name) { return transports.find(name) != std::string::npos; });
}

TEST_F(UcxProcesses, ShareNoMemoryByUcxUnlessTheyAreToldTo) {
  start("echo");
  for (const std::size_t size : {1u, 5000u, 70'000u, 16u << 20}) {
    const std::vector<std::byte> sent = pattern(size);
    const std::array<ByteSpan, 1> parts = {sent};
    ASSERT_TRUE(client_.endpoint->send_body(size, parts, nullptr));
    ASSERT_TRUE(run([&] { return client_.worker->take().has_value(); }));
  }
  EXPECT_THAT(shared_memory_of(::getpid()), IsEmpty());
  EXPECT_THAT(shared_memory_of(peer_->pid()), IsEmpty());
  const std::string transports = transports_of(client_.worker->context());
  EXPECT_THAT(transports, HasSubstr(" tcp/"));
  EXPECT_FALSE(mentions_shared_memory(transports)) << transports;

  Ends sharing(kLimits, {.transports = "tcp,sysv,posix"});
  ASSERT_TRUE(sharing.client.endpoint->send_untagged(as_bytes("x"), {}));
  sharing.receive(sharing.server);
  EXPECT_THAT(shared_memory_of(::getpid()), IsSupersetOf({HasSubstr("/dev/shm/"), HasSubstr("/SYSV")}));
  EXPECT_TRUE(mentions_shared_memory(transports_of(sharing.client.worker->context())));
}

TEST_F(UcxProcesses, AKilledPeerIsNoticedWhileIdle) {
  start("take");
  expect_death();
  EXPECT_EQ(client_.worker->take(), std::nullopt);
}

TEST_F(UcxProcesses, AKilledPeerIsNoticedInTheMiddleOfReceivingABody) {
  for (int i = 0; i < 5; ++i) {
    start("bodies");
    // The first body came whole, so the next one is under way.
    ASSERT_TRUE(run([&] { return client_.worker->take().has_value(); }));
    ASSERT_TRUE(run([&] { return client_.worker->in_message(); }));
    expect_death();
    client_.close();
  }
}

TEST_F(UcxProcesses, AKilledPeerIsNoticedInTheMiddleOfSendingABody) {
  for (int i = 0; i < 5; ++i) {
    start("take");
    auto body = std::make_shared<const std::vector<std::byte>>(pattern(64 << 20));
    const std::weak_ptr<const std::vector<std::byte>> alive = body;
    const std::array<ByteSpan, 1> parts = {*body};
    ASSERT_TRUE(client_.endpoint->send_body(1, parts, body));
    body.reset();
    client_.worker->progress();
    EXPECT_FALSE(alive.expired());
    expect_death();
    client_.endpoint.reset();
    EXPECT_TRUE(run([&] { return alive.expired(); }, 1000)) << "the body was given up";
    client_.close();
  }
}

TEST_F(UcxProcesses, AKilledPeerIsNoticedInTheMiddleOfARead) {
  for (int i = 0; i < 5; ++i) {
    start("reads");
    auto to = std::make_shared<std::vector<std::byte>>(64 << 20);
    const ReadPart part{.address = 4096, .length = to->size(), .to = to->data()};
    const auto outcome = client_.endpoint->ask({&part, 1}, to);
    ASSERT_NE(outcome, nullptr);
    ASSERT_TRUE(run([&] { return to->at(1) != std::byte{0}; })) << "until the first bytes are there";
    ASSERT_FALSE(outcome->over());
    expect_death();
    EXPECT_TRUE(run([&] { return outcome->over(); }, 1000));
    EXPECT_NE(outcome->status(), UCS_OK);
    client_.close();
    EXPECT_EQ(to.use_count(), 1) << "nobody writes there any more";
  }
}

TEST_F(UcxProcesses, AKilledPeerThatHadStoppedIsNoticedWithItsSocketsFull) {
  start("take");
  ASSERT_TRUE(client_.endpoint->send_control(as_bytes("stop")));
  const std::vector<std::byte> message = pattern(4000);
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (client_.endpoint->send_untagged(message, {})) {
    client_.worker->progress();
    ASSERT_LT(Clock::now(), deadline);
  }
  expect_death();
}

TEST_F(UcxProcesses, AnEndIsDestroyedAtOnceThoughItsPeerHasStopped) {
  start("take");
  ASSERT_TRUE(client_.endpoint->send_control(as_bytes("stop")));
  const std::vector<std::byte> message = pattern(4000);
  const auto body = std::make_shared<const std::vector<std::byte>>(pattern(20 << 20));
  const std::array<ByteSpan, 1> parts = {*body};
  ASSERT_TRUE(client_.endpoint->send_body(1, parts, body));
  for (int i = 0; i < 2000 && client_.endpoint->send_untagged(message, {}); ++i) client_.worker->progress();
  client_.endpoint->finish();
  const auto before = Clock::now();
  client_.close();
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(1));
  EXPECT_EQ(body.use_count(), 1);
}

TEST_F(UcxProcesses, AForkedChildMayNotUseWhatItInherited) {
  start("echo");
  testing::ChildProcess forked([this](const auto&) {
    const auto forbidden = [](const std::function<void()>& run) {
      try {
        run();
      } catch (const ForkError&) {
        return;
      }
      throw std::runtime_error("allowed in a forked child");
    };
    forbidden([&] { client_.worker->progress(); });
    forbidden([&] { client_.worker->take(); });
    forbidden([&] { client_.worker->arm(); });
    forbidden([&] { client_.endpoint->send_untagged({}, {}); });
    forbidden([&] { client_.endpoint->failure(); });
    forbidden([&] { contexts_.for_remote(peer_->address()); });
    forbidden([&] { UcxContext(UcxLibrary::require({}), {}, AF_INET, "lo"); });
    forbidden([&] { client_.endpoint->finish(); });
    client_.worker->signal();
    client_.close();
    return 0;
  });
  EXPECT_EQ(forked.wait(), 0);
  ASSERT_TRUE(client_.endpoint->send_tagged(9, as_bytes("after"), {}));
  std::optional<Received> got;
  ASSERT_TRUE(run([&] { return (got = client_.worker->take()).has_value(); }));
  EXPECT_EQ(as_text(got->bytes), "after") << "the parent goes on";
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
