// Two ends in this process, over a real socket and real rings.

#include <sys/mman.h>

#include <atomic>
#include <future>
#include <thread>

#include "device/memfd.h"
#include "device/region.h"
#include "shm_support.h"
#include "support/system_calls.h"

namespace crossdock::transport::shm_test {
namespace {

using device::Region;
using device::RegionKind;
using device::RegionWriter;

std::shared_ptr<const Region> frozen(std::string_view text) {
  RegionWriter writer("test");
  writer.append(as_bytes(text));
  return writer.freeze();
}

std::string text_of(const Region& region, std::size_t size) {
  return {reinterpret_cast<const char*>(region.data()) + 64, size};
}

class ShmConnectionTest : public ::testing::Test {
 protected:
  void connect(const ShmOptions& server = {}, const ShmOptions& client = {}) {
    Pair pair = connected_pair(server, client);
    server_ = std::move(pair.server);
    client_ = std::move(pair.client);
    ASSERT_TRUE(server_ && client_);
  }
  std::unique_ptr<Connection> server_;
  std::unique_ptr<Connection> client_;
};

TEST(ShmAnnouncements, AreReadForHolesInTurns) {
  Child older([] {
    testing::forbid_cachestat();
    Pair pair = connected_pair({}, {});
    constexpr std::uint64_t kSize = 16 << 20;
    constexpr int kRegions = 4;
    std::vector<std::shared_ptr<const Region>> regions;
    for (std::uint16_t number = 0; number < kRegions; ++number) {
      regions.push_back(Region::make_recycled(kSize, "test"));
      require(pair.server->announce(number, regions.back()).has_value(), "an announcement");
    }
    pair.client->wake();
    for (int turn = 0; turn < kRegions; ++turn) {
      const std::uint64_t before = device::memfd::bytes_searched();
      require(!pair.client->receive(), "no message");
      require(device::memfd::bytes_searched() - before == kSize, "one region in a turn");
    }
    for (std::uint16_t number = 0; number < kRegions; ++number) region_of(*pair.client, number, 0);
  });
  EXPECT_EQ(older.wait(), 0);
}

TEST_F(ShmConnectionTest, AgreesOnWhoIsThere) {
  connect();
  for (const Connection* end : {server_.get(), client_.get()}) {
    const Agreement& agreement = end->agreement();
    EXPECT_EQ(agreement.want_data, 1U);
    EXPECT_EQ(agreement.free_data, 2U);
    EXPECT_TRUE(agreement.error_messages);
    EXPECT_TRUE(agreement.same_user);
    EXPECT_EQ(agreement.peer_pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(agreement.peer_uid, ::geteuid());
    EXPECT_EQ(end->agreement().ways, Way::kMap | Way::kMessage);
  }
}

TEST_F(ShmConnectionTest, MessagesGoBothWays) {
  connect();
  ASSERT_TRUE(client_->send_tagged(42, as_bytes("to "), as_bytes("server")));
  ASSERT_TRUE(server_->send(as_bytes("to client"), {}));
  EXPECT_EQ(client_->in_flight(), 1U);
  const auto message = server_->receive();
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->tagged);
  EXPECT_EQ(message->tag, 42U);
  EXPECT_EQ(as_text(message->bytes), "to server");
  EXPECT_EQ(client_->in_flight(), 0U);
  EXPECT_EQ(as_text(client_->receive()->bytes), "to client");
}

TEST_F(ShmConnectionTest, TheSmallerLimitOfBothEndsHolds) {
  connect({.max_message = 1000}, {.max_message = 2000});
  EXPECT_EQ(server_->max_message(), 1000U);
  EXPECT_EQ(client_->max_message(), 1000U);
  EXPECT_THROW(client_->send(pattern(501), pattern(500)), InvalidArgumentError);
  ASSERT_TRUE(client_->send(pattern(500), pattern(500)));
  EXPECT_EQ(server_->receive()->bytes.size(), 1000U);
}

TEST_F(ShmConnectionTest, AListenerTakesShorterMessagesThanItSends) {
  connect({.max_message = 2000, .max_request = 1000}, {.max_message = 3000});
  EXPECT_EQ(server_->max_message(), 2000U);
  EXPECT_EQ(client_->max_message(), 1000U);
  ASSERT_TRUE(server_->send(pattern(2000), {}));
  EXPECT_EQ(client_->receive()->bytes.size(), 2000U);
  EXPECT_THROW(client_->send(pattern(1001), {}), InvalidArgumentError);
  connect({.max_message = 900}, {});
  EXPECT_EQ(client_->max_message(), 900U) << "max_request is over max_message";
}

TEST_F(ShmConnectionTest, LargeMessagesInBothDirectionsAtOnce) {
  connect({.ring_bytes = 64 << 10, .max_request = 5 << 20}, {.ring_bytes = 128 << 10});
  const auto bytes = pattern(5 << 20);
  std::thread peer([&] {
    send_or_throw(*server_, bytes);
    EXPECT_EQ(receive_or_throw(*server_), bytes);
    while (!server_->flush()) wait_readable(*server_, WaitMode::kBlock, in_ms(5000), nullptr);
  });
  send_or_throw(*client_, bytes);
  EXPECT_EQ(receive_or_throw(*client_), bytes);
  while (!client_->flush()) wait_readable(*client_, WaitMode::kBlock, in_ms(5000), nullptr);
  peer.join();
}

TEST_F(ShmConnectionTest, SleepsUntilRung) {
  connect();
  ASSERT_TRUE(client_->prepare_sleep());
  pollfd ask{client_->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&ask, 1, 0), 0);
  ASSERT_TRUE(server_->send(as_bytes("x"), {}));
  EXPECT_EQ(::poll(&ask, 1, 1000), 1);
  client_->wake();
  EXPECT_TRUE(client_->receive());
  EXPECT_FALSE(client_->receive());
  EXPECT_EQ(::poll(&ask, 1, 0), 0) << "the doorbell was taken";
}

TEST_F(ShmConnectionTest, DoesNotSleepOnAMessage) {
  connect();
  ASSERT_TRUE(server_->send(as_bytes("x"), {}));
  EXPECT_FALSE(client_->prepare_sleep());
  EXPECT_TRUE(client_->readable());
  pollfd ask{client_->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&ask, 1, 0), 0) << "nobody slept, nobody rang";
}

TEST_F(ShmConnectionTest, AnOpeningWindowWakesTheSleeper) {
  connect();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(server_->send(as_bytes("x"), {}));
  EXPECT_FALSE(server_->below_window(4));
  ASSERT_TRUE(server_->prepare_sleep());
  ASSERT_TRUE(client_->receive());
  pollfd ask{server_->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&ask, 1, 1000), 1);
  server_->wake();
  EXPECT_TRUE(server_->below_window(4));
  EXPECT_FALSE(server_->receive());
  EXPECT_THROW(server_->below_window(0), InvalidArgumentError);
}

TEST_F(ShmConnectionTest, RegionsArriveUnderTheirNumbers) {
  connect();
  const auto first = frozen("the first");
  const auto recycled = Region::make_recycled(1 << 16, "test");
  std::memcpy(recycled->writable() + 64, "recycled", 8);
  ASSERT_TRUE(server_->announce(3, first));
  ASSERT_TRUE(server_->announce(65535, recycled));
  const auto got = region_of(*client_, 3, 1000);
  EXPECT_EQ(got->kind(), RegionKind::kFrozen);
  EXPECT_EQ(text_of(*got, 9), "the first");
  const auto other = region_of(*client_, 65535, 1000);
  EXPECT_EQ(other->kind(), RegionKind::kRecycled);
  EXPECT_EQ(text_of(*other, 8), "recycled");
  EXPECT_EQ(region_of(*client_, 3, 0), got);
}

TEST_F(ShmConnectionTest, FilesArriveAsTheyAre) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("0123456789", file);
  std::fclose(file);
  connect();
  const auto region = Region::open_file(path);
  ASSERT_TRUE(server_->announce(0, region));
  const auto got = region_of(*client_, 0, 1000);
  EXPECT_EQ(got->kind(), RegionKind::kFile);
  EXPECT_EQ(got->size(), 10U);
  EXPECT_EQ(got->stamp(), region->stamp());
}

TEST_F(ShmConnectionTest, FilesAreRefusedWhereTheOptionSaysSo) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("0123456789", file);
  std::fclose(file);
  connect({}, {.accept_files = false});
  ASSERT_TRUE(server_->announce(0, Region::open_file(path)));
  try {
    region_of(*client_, 0, 1000);
    FAIL();
  } catch (const ProtocolError& error) {
    EXPECT_NE(std::string(error.what()).find("accept_files"), std::string::npos);
  }
}

TEST_F(ShmConnectionTest, ARegionThatNeverComesIsAnErrorInTime) {
  connect();
  const auto begin = now_ns();
  EXPECT_THROW(region_of(*client_, 1, 50), ProtocolError);
  EXPECT_GE(now_ns() - begin, 45'000'000);
  EXPECT_THROW(client_->receive(), ProtocolError) << "the connection doesn't recover";
}

TEST_F(ShmConnectionTest, ATrailingAnnouncementIsWaitedFor) {
  connect();
  const auto region = frozen("late");
  std::atomic<bool> waiting{false};
  std::thread late([&] {
    while (!waiting.load()) std::this_thread::yield();
    ASSERT_TRUE(server_->announce(1, region));
  });
  waiting.store(true);
  EXPECT_EQ(text_of(*region_of(*client_, 1, 10'000), 4), "late");
  late.join();
}

TEST_F(ShmConnectionTest, RetirementAndReuseOfANumberFollowTheMessages) {
  connect();
  const auto old_region = frozen("old");
  const auto new_region = frozen("new");
  ASSERT_TRUE(server_->announce(7, old_region));
  ASSERT_TRUE(server_->send(as_bytes("names the old one"), {}));
  ASSERT_TRUE(server_->retire(7));
  ASSERT_TRUE(server_->announce(7, new_region));
  ASSERT_TRUE(server_->send(as_bytes("names the new one"), {}));
  ASSERT_TRUE(client_->receive());
  const auto held = region_of(*client_, 7, 1000);
  EXPECT_EQ(text_of(*held, 3), "old");
  ASSERT_TRUE(client_->receive());
  EXPECT_EQ(text_of(*region_of(*client_, 7, 1000), 3), "new");
  EXPECT_EQ(text_of(*held, 3), "old") << "who holds it keeps it";
}

TEST_F(ShmConnectionTest, ReuseIsRightWhenTheSocketIsReadFirst) {
  connect();
  const auto old_region = frozen("old");
  const auto new_region = frozen("new");
  ASSERT_TRUE(server_->announce(7, old_region));
  EXPECT_TRUE(region_of(*client_, 7, 1000));
  ASSERT_TRUE(server_->send(as_bytes("names the old one"), {}));
  ASSERT_TRUE(server_->retire(7));
  ASSERT_TRUE(server_->announce(7, new_region));
  ASSERT_TRUE(server_->send(as_bytes("names the new one"), {}));
  client_->wake();  // has the socket read before the ring
  ASSERT_TRUE(client_->receive());
  EXPECT_EQ(text_of(*region_of(*client_, 7, 1000), 3), "old");
  ASSERT_TRUE(client_->receive());
  EXPECT_EQ(text_of(*region_of(*client_, 7, 1000), 3), "new");
}

TEST_F(ShmConnectionTest, ANumberInUseAnnouncedAgainIsRefused) {
  connect();
  const auto region = frozen("x");
  ASSERT_TRUE(server_->announce(7, region));
  ASSERT_TRUE(server_->announce(7, region));
  EXPECT_THROW(
      {
        region_of(*client_, 7, 1000);
        region_of(*client_, 8, 1000);
      },
      ProtocolError);
}

TEST_F(ShmConnectionTest, RetiringWhatNamesNothingIsRefused) {
  connect();
  ASSERT_TRUE(server_->retire(7));
  EXPECT_THROW(client_->receive(), ProtocolError);
}

TEST_F(ShmConnectionTest, RegionsOverTheLimitAreRefusedAndHeldOnesCount) {
  const auto region = frozen(std::string(100'000, 'x'));
  connect({}, {.max_region_bytes = region->size() * 2});
  ASSERT_TRUE(server_->announce(0, region));
  ASSERT_TRUE(server_->announce(1, region));
  auto held = region_of(*client_, 0, 1000);
  ASSERT_TRUE(region_of(*client_, 1, 1000));
  ASSERT_TRUE(server_->retire(0));
  ASSERT_TRUE(server_->retire(1));
  EXPECT_FALSE(client_->receive());
  ASSERT_TRUE(server_->announce(2, region)) << "1 was released";
  ASSERT_TRUE(region_of(*client_, 2, 1000));
  ASSERT_TRUE(server_->announce(3, region)) << "0 is still held";
  EXPECT_THROW(region_of(*client_, 3, 1000), ProtocolError);
}

TEST_F(ShmConnectionTest, TooManyRegionsAreRefused) {
  connect({}, {.max_regions = 2});
  const auto region = frozen("x");
  for (std::uint16_t i = 0; i < 3; ++i) ASSERT_TRUE(server_->announce(i, region));
  EXPECT_THROW(region_of(*client_, 2, 1000), ProtocolError);
}

TEST_F(ShmConnectionTest, ARegionOutlivesItsConnection) {
  connect();
  auto region = frozen("stays");
  ASSERT_TRUE(server_->announce(0, region));
  const auto got = region_of(*client_, 0, 1000);
  region.reset();
  server_.reset();
  client_.reset();
  EXPECT_EQ(text_of(*got, 5), "stays");
}

TEST_F(ShmConnectionTest, AnnouncingWhatHasNoDescriptorIsRefusedHere) {
  connect();
  ASSERT_TRUE(server_->announce(0, frozen("x")));
  const auto got = region_of(*client_, 0, 1000);
  ASSERT_EQ(got->descriptor(), -1);
  EXPECT_THROW(client_->announce(0, got), InvalidArgumentError);
}

TEST_F(ShmConnectionTest, AFullSocketTakesNoMoreAnnouncementsUntilItIsRead) {
  connect();
  const auto region = frozen("x");
  std::uint16_t announced = 0;
  while (server_->announce(announced, region)) ASSERT_LT(++announced, 60'000);
  ASSERT_GT(announced, 10);
  ASSERT_TRUE(server_->prepare_sleep());
  ASSERT_TRUE(region_of(*client_, static_cast<std::uint16_t>(announced - 1), 5000));
  pollfd ask{server_->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&ask, 1, 5000), 1) << "rung, because there is room";
  server_->wake();
  EXPECT_FALSE(server_->receive());
  EXPECT_TRUE(server_->announce(announced, region));
}

TEST_F(ShmConnectionTest, TheEndComesAfterTheLastMessage) {
  connect();
  const auto region = frozen("sent before");
  ASSERT_TRUE(server_->announce(1, region));
  ASSERT_TRUE(server_->send(as_bytes("one"), {}));
  ASSERT_TRUE(server_->send(as_bytes("two"), {}));
  ASSERT_TRUE(client_->send(as_bytes("never read"), {}));
  server_.reset();
  EXPECT_EQ(as_text(client_->receive()->bytes), "one");
  EXPECT_EQ(text_of(*region_of(*client_, 1, 1000), 11), "sent before");
  EXPECT_EQ(as_text(client_->receive()->bytes), "two");
  EXPECT_TRUE(client_->readable());
  EXPECT_THROW(client_->receive(), ConnectionError);
  EXPECT_THROW(client_->send(as_bytes("x"), {}), ConnectionError);
  EXPECT_THROW(client_->announce(0, region), ConnectionError);
  EXPECT_FALSE(client_->prepare_sleep());
}

TEST_F(ShmConnectionTest, TheEndWakesASleeper) {
  connect();
  ASSERT_TRUE(client_->prepare_sleep());
  server_.reset();
  EXPECT_TRUE(wait_readable(*client_, WaitMode::kBlock, in_ms(5000), nullptr));
  EXPECT_THROW(client_->receive(), ConnectionError);
}

TEST_F(ShmConnectionTest, AnEndWithinAMessageIsSaid) {
  connect({.ring_bytes = 64 << 10}, {});
  ASSERT_TRUE(server_->send(pattern(1 << 20), {}));
  server_.reset();
  try {
    while (!client_->receive()) {
    }
    FAIL() << "no part of a message is a message";
  } catch (const ConnectionError& error) {
    EXPECT_NE(std::string(error.what()).find("in the middle of a message"), std::string::npos) << error.what();
  }
}

TEST_F(ShmConnectionTest, WaitingEndsAtTheDeadline) {
  connect();
  for (const WaitMode mode : {WaitMode::kAuto, WaitMode::kSpin, WaitMode::kBlock}) {
    const auto begin = now_ns();
    EXPECT_FALSE(wait_readable(*client_, mode, in_ms(20), nullptr));
    EXPECT_GE(now_ns() - begin, 19'000'000);
    EXPECT_FALSE(wait_readable(*client_, mode, 1, nullptr)) << "a deadline long past";
  }
}

TEST_F(ShmConnectionTest, WaitingAsksTheHook) {
  connect();
  for (const WaitMode mode : {WaitMode::kAuto, WaitMode::kSpin, WaitMode::kBlock}) {
    int asked = 0;
    EXPECT_THROW(wait_readable(*client_, mode, 0, [&] { return ++asked == 2; }), InterruptedError);
    EXPECT_EQ(asked, 2);
  }
  ASSERT_TRUE(server_->send(as_bytes("still works"), {}));
  EXPECT_EQ(as_text(client_->receive()->bytes), "still works");
}

TEST_F(ShmConnectionTest, ASignalHasTheHookAsked) {
  connect();
  static std::atomic<bool> signalled{false};
  signalled.store(false);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { signalled.store(true); };
  ::sigaction(SIGUSR1, &action, &before);
  const pthread_t self = ::pthread_self();
  // It has to come while the waiting sleeps, and nothing tells from outside that it does: so it comes until it is over.
  std::promise<void> over;
  std::thread killer([&, done = over.get_future()] {
    while (done.wait_for(1ms) == std::future_status::timeout) ::pthread_kill(self, SIGUSR1);
  });
  EXPECT_THROW(wait_readable(*client_, WaitMode::kBlock, in_ms(10'000), [] { return signalled.load(); }),
               InterruptedError);
  over.set_value();
  killer.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(ShmConnectionTest, ARefusedSendWorksAfterWaitingInEveryMode) {
  for (const WaitMode mode : {WaitMode::kAuto, WaitMode::kSpin, WaitMode::kBlock}) {
    connect({.ring_bytes = 64 << 10}, {.ring_bytes = 64 << 10});
    const auto bytes = pattern(5000);
    unsigned sent = 0;
    while (server_->send(bytes, {})) ++sent;
    std::thread reader([&] {
      for (unsigned i = 0; i <= sent; ++i) EXPECT_EQ(receive_or_throw(*client_, mode), bytes);
    });
    send_or_throw(*server_, bytes, mode);
    reader.join();
  }
}

TEST_F(ShmConnectionTest, NoDescriptorIsLeft) {
  connect();
  server_.reset();
  client_.reset();
  const int before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    connect();
    ASSERT_TRUE(server_->announce(0, frozen("x")));
    ASSERT_TRUE(server_->announce(1, frozen("never taken")));
    ASSERT_TRUE(region_of(*client_, 0, 1000));
    server_.reset();
    client_.reset();
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace crossdock::transport::shm_test
