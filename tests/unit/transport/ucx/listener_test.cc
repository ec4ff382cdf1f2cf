#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "support.h"

namespace crossdock::transport::ucx_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string where(const UcxListener& listener) { return listener.uri().substr(4); }

TEST(UcxListener, PicksAPortAndSaysIt) {
  UcxContexts contexts(UcxOptions{});
  const auto listener = listen_at(contexts, "//127.0.0.1:0");
  EXPECT_NE(port_of(listener->address()), 0);
  EXPECT_EQ(listener->uri(), "ucx://127.0.0.1:" + std::to_string(port_of(listener->address())));
}

TEST(UcxListener, KnowsItsClients) {
  Ends ends;
  End second = ends.connect();
  ASSERT_TRUE(run_until({second.worker.get()}, ends.listener.get(), [&] { return ends.listener->requests() == 1; }));
  EXPECT_EQ(host_of(ends.listener->client()), "127.0.0.1");
  EXPECT_NE(port_of(ends.listener->client()), 0);
}

TEST(UcxListener, ServesSeveralClientsEachByItsOwnWorker) {
  Ends ends;
  End second = ends.connect();
  ASSERT_TRUE(run_until({second.worker.get()}, ends.listener.get(), [&] { return ends.listener->requests() == 1; }));
  End seconds_server = ends.accept();
  ASSERT_TRUE(ends.client.endpoint->send_tagged(1, as_bytes("first"), {}));
  ASSERT_TRUE(second.endpoint->send_tagged(1, as_bytes("second"), {}));
  EXPECT_EQ(as_text(ends.receive(ends.server).bytes), "first");
  std::optional<Received> got;
  ASSERT_TRUE(run_until({second.worker.get(), seconds_server.worker.get()}, nullptr,
                        [&] { return (got = seconds_server.worker->take()).has_value(); }));
  EXPECT_EQ(as_text(got->bytes), "second");
}

TEST(UcxListener, ListensAtItsPortAgainAtOnce) {
  std::string address;
  for (int i = 0; i < 5; ++i) {
    Ends ends(kLimits, {}, address);
    address = where(*ends.listener);
    ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
    EXPECT_EQ(as_text(ends.receive(ends.server).bytes), "x");
    if (i % 2 == 0) ends.server.close();  // so that it, not the client, keeps the port in TIME_WAIT
  }
}

TEST(UcxListener, APortInUseIsNamed) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = resolve("ucx", {"127.0.0.1", 0}).at(0);
  ASSERT_EQ(::bind(socket.get(), any.get(), any.size), 0);
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  const std::string uri = to_uri("ucx", local_address(socket.get()));
  UcxContexts contexts(UcxOptions{});
  try {
    listen_at(contexts, uri.substr(4));
    FAIL() << "it listens";
  } catch (const ConnectionError& error) {
    EXPECT_THAT(error.what(), StartsWith("can't listen at " + uri + ": another process listens there"));
  }
}

TEST(UcxListener, BadAddressesAreNamed) {
  UcxContexts contexts(UcxOptions{});
  EXPECT_THROW(listen_at(contexts, "127.0.0.1:0"), UriError);
  EXPECT_THROW(listen_at(contexts, "//no-such-host.invalid:0"), ConnectionError);
  EXPECT_THROW(listen_at(contexts, "//198.51.100.7:0"), ConnectionError) << "an address of another machine";
}

TEST(UcxListener, Ipv6NeedsALaterVersion) {
  UcxContexts contexts(UcxOptions{});
  if (contexts.library().is_at_least(1, 22)) {
    Ends ends(kLimits, {}, "//[::1]:0");
    EXPECT_THAT(ends.listener->uri(), StartsWith("ucx://[::1]:"));
    ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
    EXPECT_EQ(as_text(ends.receive(ends.server).bytes), "x");
    return;
  }
  try {
    listen_at(contexts, "//[::1]:0");
    FAIL() << "it listens";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("IPv6 needs UCX 1.22 or later"));
  }
}

TEST(UcxListener, ARejectedClientLearnsIt) {
  Ends ends;
  End second = ends.connect();
  ASSERT_TRUE(run_until({second.worker.get()}, ends.listener.get(), [&] { return ends.listener->requests() == 1; }));
  ends.listener->reject();
  ASSERT_TRUE(
      run_until({second.worker.get()}, ends.listener.get(), [&] { return second.endpoint->failure().has_value(); }));
  EXPECT_THROW(second.endpoint->send_untagged({}, {}), ConnectionError);
}

TEST(UcxListener, MoreClientsThanMayWaitAreRejected) {
  Ends ends;
  std::vector<End> clients(UcxListener::kMaxRequests + 3);
  for (End& client : clients) client = ends.connect();
  ASSERT_TRUE(run_until({clients.back().worker.get()}, ends.listener.get(), [&] {
    std::size_t rejected = 0;
    for (const End& client : clients) {
      client.worker->progress();
      rejected += client.endpoint->failure().has_value() ? 1 : 0;
    }
    return rejected == 3 && ends.listener->requests() == UcxListener::kMaxRequests;
  }));
  // Destroying the listener rejects the others.
  ends.listener.reset();
  ASSERT_TRUE(run_until({clients.back().worker.get()}, nullptr, [&] {
    for (const End& client : clients) client.worker->progress();
    return std::ranges::all_of(clients, [](const End& client) { return client.endpoint->failure().has_value(); });
  }));
}

TEST(UcxListener, AClientThatLeftBeforeItWasAcceptedIsAnErrorOfItsOwn) {
  Ends ends;
  End second = ends.connect();
  ASSERT_TRUE(run_until({second.worker.get()}, ends.listener.get(), [&] { return ends.listener->requests() == 1; }));
  second.close();
  End server;
  server.worker = std::make_shared<Worker>(ends.contexts.for_local(ends.listener->address()), kLimits, "the client");
  try {
    server.endpoint = ends.listener->accept(server.worker);
    EXPECT_TRUE(
        run_until({server.worker.get()}, ends.listener.get(), [&] { return server.endpoint->failure().has_value(); }));
  } catch (const Error&) {  // It may be known at once.
  }
  ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
  EXPECT_EQ(as_text(ends.receive(ends.server).bytes), "x") << "the other client is unharmed";
}

TEST(UcxListener, NobodyThereIsAFailure) {
  UcxContexts contexts(UcxOptions{});
  SocketAddress address;
  { address = listen_at(contexts, "")->address(); }
  End client;
  client.worker = std::make_shared<Worker>(contexts.for_remote(address), kLimits, "nobody");
  client.endpoint = Endpoint::connect(client.worker, address);
  EXPECT_TRUE(client.endpoint->send_untagged(as_bytes("x"), {}));
  EXPECT_TRUE(run_until(
      {client.worker.get()}, nullptr, [&] { return client.endpoint->failure().has_value(); }, 5000));
}

/// The addresses, in hexadecimal, at which this process listens.
std::set<std::string> listening() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  std::set<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
      if (word.size() > 9 && word[3] == "0A" && inodes.contains(word[9])) {
        addresses.insert(word[1].substr(0, word[1].find(':')));
      }
    }
  }
  return addresses;
}

TEST(UcxListener, AtTheLoopbackNothingListensElsewhere) {
  const std::set<std::string> before = listening();
  Ends ends;
  ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
  ends.receive(ends.server);
  EXPECT_TRUE(before.empty());
  EXPECT_EQ(listening(), std::set<std::string>{"0100007F"});
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
