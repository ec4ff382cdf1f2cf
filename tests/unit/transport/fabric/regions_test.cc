// Regions that are registered, and reads of them.
#include <sys/resource.h>

#include <set>

#include "support.h"
#include "unit/device/support.h"

namespace crossdock::transport::fabric_test {
namespace {

class FabricRegions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
  }
  static constexpr std::uint64_t kUnused = 64;  // at the beginning of a region
};

TEST_F(FabricRegions, AreRegisteredOnceForAllConnections) {
  const auto listener = fabric_listen("", 1, 2, {}, nullptr);
  const std::array regions = {frozen(pattern(100'000)), frozen(pattern(1000))};
  // Keys are random: the same key is the same registration.
  std::array<std::set<std::uint64_t>, regions.size()> keys;
  for (int i = 0; i < 3; ++i) {
    auto connecting = std::async(std::launch::async, [&] {
      auto client = std::make_unique<RawEnd>(address_of(*listener));
      client->open();
      return client;
    });
    const auto server = accept_one(*listener);
    const auto client = connecting.get();
    for (int round = 0; round < 55; ++round) {
      for (std::uint16_t number = 0; number < regions.size(); ++number) {
        ASSERT_TRUE(server->announce(number, regions.at(number)));
        keys.at(number).insert(client->region().key);
        ASSERT_TRUE(server->retire(number));
      }
    }
  }
  for (const auto& of_region : keys) EXPECT_EQ(of_region.size(), 1u);
  EXPECT_NE(keys[0], keys[1]);
}

TEST_F(FabricRegions, HaveOneRegistrationInADomain) {
  const FabricOptions options;
  const auto library = FabricLibrary::require({});
  const SocketAddress host = without_port(resolve("fabric", {"127.0.0.1", 1}).at(0));
  const auto domain = std::make_shared<const FabricDomain>(library, options.provider, host);
  const auto other = std::make_shared<const FabricDomain>(library, options.provider, host);
  auto region = frozen(pattern(1000));
  const auto first = RegisteredRegion::of(*region, domain);
  EXPECT_EQ(RegisteredRegion::of(*region, domain), first);
  const auto second = RegisteredRegion::of(*region, other);
  EXPECT_NE(second, first);
  EXPECT_NE(second->key(), first->key()) << "keys are random";
}

TEST_F(FabricRegions, ThatTheProviderRefusesAreAnErrorThatNamesTheLimit) {
  const SocketAddress host = without_port(resolve("fabric", {"127.0.0.1", 1}).at(0));
  const auto domain = std::make_shared<const FabricDomain>(FabricLibrary::require({}), FabricOptions{}.provider, host);
  const auto region = frozen(pattern(1000));
  // As a provider for hardware does where no more memory may be locked.
  fi_ops_mr refusing = *domain->get()->mr;
  refusing.reg = [](fid*, const void*, std::size_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                    fid_mr**, void*) { return -FI_ENOMEM; };
  fi_ops_mr* const its_own = std::exchange(domain->get()->mr, &refusing);
  try {
    RegisteredRegion::of(*region, domain);
    ADD_FAILURE() << "it was registered";
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("Cannot allocate memory; check the limit of locked memory (ulimit -l)"));
  }
  domain->get()->mr = its_own;
  EXPECT_NE(RegisteredRegion::of(*region, domain), nullptr) << "a refusal isn't kept";
}

TEST_F(FabricRegions, EndWithTheRegion) {
  const auto library = FabricLibrary::require({});
  const SocketAddress host = without_port(resolve("fabric", {"127.0.0.1", 1}).at(0));
  const auto domain = std::make_shared<const FabricDomain>(library, FabricOptions{}.provider, host);
  auto region = frozen(pattern(1000));
  const std::weak_ptr<const RegisteredRegion> watched = RegisteredRegion::of(*region, domain);
  EXPECT_FALSE(watched.expired());
  region.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(FabricRegions, OfWritableMemoryShowWhatIsWrittenLater) {
  const Pair ends;
  const auto region = device::Region::make_recycled(1 << 16, "fabric-test");
  ASSERT_TRUE(ends.server->announce(3, region));
  std::memcpy(region->writable() + 100, "later", 5);
  const std::uint64_t base = (std::uint64_t{3} << 48) + 100;
  await_region(*ends.client, base);
  std::array<char, 5> got{};
  const ReadPart part{base, got.size(), reinterpret_cast<std::byte*>(got.data())};
  const auto reading = ends.client->read({&part, 1}, nullptr);
  while (!reading->done()) ends.server->receive();
  EXPECT_EQ(std::string_view(got.data(), got.size()), "later");
}

TEST_F(FabricRegions, GoAsMessagesWhereTheSystemRefusesToRegisterThem) {
  const Pair ends({}, {}, ConnectOptions{.wants_parts = true});
  const auto region = frozen(pattern(1 << 20));
  {
    // Stands in for the limit of locked memory, which this provider doesn't need: the region can't be mapped.
    const testing::ScopedLimit no_memory(RLIMIT_AS, 1 << 20);
    EXPECT_FALSE(ends.server->prepare_reads(*region));
    EXPECT_THROW(ends.server->announce(1, region), ResourceError);
  }
  EXPECT_TRUE(ends.server->prepare_reads(*region));
  EXPECT_EQ(ends.server->ways_of(*region), Way::kRead | Way::kMessage);
}

TEST_F(FabricRegions, AreReadOnlyByClientsThatWantTo) {
  FabricOptions without;
  without.remote_reads = false;
  const auto region = frozen(pattern(1000));
  for (const Pair& ends : {Pair(without, {}), Pair({}, without)}) {
    EXPECT_EQ(ends.server->agreement().ways, Ways(Way::kMessage));
    EXPECT_EQ(ends.client->agreement().ways, Ways(Way::kMessage));
    EXPECT_THROW(ends.server->announce(1, region), std::logic_error);
    EXPECT_THROW(ends.client->read({}, nullptr), std::logic_error);
  }
  EXPECT_THROW(fabric_connect("//127.0.0.1:1", without, kPatienceMs, nullptr, ConnectOptions{.ways = Way::kRead}),
               UnsupportedError);
}

TEST_F(FabricRegions, ReadsThatEndWhileAnotherIsAskedAreNews) {
  const Pair ends;
  const auto region = frozen(pattern(1 << 16));
  ASSERT_TRUE(ends.server->announce(1, region));
  const std::uint64_t base = (std::uint64_t{1} << 48) + kUnused;
  await_region(*ends.client, base);
  EXPECT_FALSE(ends.client->receive()) << "the link is drained";
  Bytes to(1 << 16);
  const ReadPart part{base, to.size(), to.data()};
  const auto first = ends.client->read({&part, 1}, nullptr);
  const auto second = ends.client->read({&part, 1}, nullptr);
  const auto last = ends.client->read({&part, 1}, nullptr);
  EXPECT_FALSE(first->done());
  while (!last->done()) ends.server->receive();
  EXPECT_FALSE(ends.client->prepare_sleep()) << "the first one has ended as well";
  ends.client->wake();
  EXPECT_TRUE(first->done());
  EXPECT_FALSE(ends.client->prepare_sleep()) << "one more";
  ends.client->wake();
  EXPECT_TRUE(second->done());
  EXPECT_TRUE(ends.client->prepare_sleep());
  ends.client->wake();
}

TEST_F(FabricRegions, ReadsWaitForRoom) {
  const Pair ends;
  const auto region = frozen(pattern(1 << 16));
  ASSERT_TRUE(ends.server->announce(1, region));
  const std::uint64_t base = (std::uint64_t{1} << 48) + kUnused;
  await_region(*ends.client, base);
  std::vector<std::unique_ptr<Reading>> readings;
  Bytes to(8);
  const ReadPart part{base, to.size(), to.data()};
  for (;;) {
    auto reading = ends.client->read({&part, 1}, nullptr);
    if (reading == nullptr) break;
    readings.push_back(std::move(reading));
    ASSERT_LT(readings.size(), 10'000u);
  }
  while (!readings.back()->done()) ends.server->receive();
  EXPECT_NE(ends.client->read({&part, 1}, nullptr), nullptr);
}

}  // namespace
}  // namespace crossdock::transport::fabric_test
