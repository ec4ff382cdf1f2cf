#include "transport/ucx/registrations.h"

#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "support.h"
#include "transport/ucx/remote_key.h"

namespace crossdock::transport::ucx_test {
namespace {

/// Ends that may read each other's memory, after a message in each direction.
struct TrustingEnds : Ends {
  TrustingEnds() : Ends(kLimits, {.remote_reads = true}) {
    client.endpoint->send_control(as_bytes("x"));
    receive(server);
    server.endpoint->send_control(as_bytes("x"));
    receive(client);
  }
  std::shared_ptr<Registrations> registrations() { return contexts.for_local(listener->address())->registrations(); }
};

TEST(UcxReads, RegisteredMemoryIsReadByItsKey) {
  TrustingEnds ends;
  const std::vector<std::byte> memory = pattern(3'000'000);
  const auto base = reinterpret_cast<std::uint64_t>(memory.data());
  const RegisteredMemory registered(ends.registrations(), memory.data(), memory.size());
  EXPECT_FALSE(registered.packed_key().empty());
  const RemoteKey key(*ends.client.endpoint, registered.packed_key());
  for (const std::size_t size : {1u, 5000u, 3'000'000u}) {
    auto to = std::make_shared<std::vector<std::byte>>(size);
    const std::size_t offset = memory.size() - size;
    const RemotePart part{.key = &key, .address = base + offset, .size = size, .to = to->data()};
    const auto outcome = ends.client.endpoint->read({&part, 1}, to);
    ASSERT_NE(outcome, nullptr);
    ASSERT_TRUE(ends.run([&] { return outcome->over(); }));
    EXPECT_EQ(outcome->status(), UCS_OK);
    EXPECT_TRUE(same(*to, ByteSpan(memory).subspan(offset)));
    EXPECT_EQ(to.use_count(), 1) << "the read is over";
  }
}

TEST(UcxReads, AReadEndsWithItsPeer) {
  TrustingEnds ends;
  const std::vector<std::byte> memory = pattern(30'000'000);
  const RegisteredMemory registered(ends.registrations(), memory.data(), memory.size());
  const RemoteKey key(*ends.client.endpoint, registered.packed_key());
  auto to = std::make_shared<std::vector<std::byte>>(memory.size());
  const RemotePart part{
      .key = &key, .address = reinterpret_cast<std::uint64_t>(memory.data()), .size = to->size(), .to = to->data()};
  const auto outcome = ends.client.endpoint->read({&part, 1}, to);
  ASSERT_NE(outcome, nullptr);
  ends.server.worker->progress();
  ends.server.close();
  ASSERT_TRUE(run_until({ends.client.worker.get()}, nullptr, [&] { return outcome->over(); }));
  EXPECT_NE(outcome->status(), UCS_OK);
}

TEST(UcxReads, AWorkerThatIsDestroyedEndsItsReads) {
  TrustingEnds ends;
  const std::vector<std::byte> memory = pattern(30'000'000);
  const RegisteredMemory registered(ends.registrations(), memory.data(), memory.size());
  auto to = std::make_shared<std::vector<std::byte>>(memory.size());
  const std::weak_ptr<const void> kept = to;
  std::shared_ptr<const Outcome> outcome;
  {
    const RemoteKey key(*ends.client.endpoint, registered.packed_key());
    const RemotePart part{
        .key = &key, .address = reinterpret_cast<std::uint64_t>(memory.data()), .size = to->size(), .to = to->data()};
    outcome = ends.client.endpoint->read({&part, 1}, std::move(to));
  }
  EXPECT_FALSE(kept.expired());
  ends.client.close();
  EXPECT_TRUE(kept.expired());
  EXPECT_TRUE(outcome->over());
  EXPECT_NE(outcome->status(), UCS_OK);
}

TEST(UcxReads, ARegionIsRegisteredOnceAndUntilItOrTheContextGoes) {
  const auto count = [](const UcxContext& context, const auto& region) {
    return registered(context.registrations(), region)->memory.packed_key().size();
  };
  auto contexts = std::make_unique<UcxContexts>(UcxOptions{.remote_reads = true});
  const auto listener = listen_at(*contexts, "");
  auto context = contexts->for_local(listener->address());
  device::RegionWriter writer("test");
  writer.append(pattern(10'000));
  std::shared_ptr<const device::Region> region = writer.freeze();
  EXPECT_GT(count(*context, region), 0u);
  const auto first = registered(context->registrations(), region);
  EXPECT_EQ(registered(context->registrations(), region), first);
  EXPECT_NE(first->data, nullptr) << "the writer's region had no mapping";
  // Another context has its own.
  UcxContexts others(UcxOptions{.remote_reads = true});
  const auto other = others.for_local(listener->address());
  EXPECT_NE(registered(other->registrations(), region), first);
  const auto registrations = context->registrations();
  registrations->close();  // as the end of the context does
  EXPECT_THROW(RegisteredMemory(registrations, first->data, 64), ClosedError);
  region.reset();
}

TEST(UcxReads, NothingIsReadWithoutTheOption) {
  Ends ends;
  EXPECT_EQ(ends.contexts.for_local(ends.listener->address())->registrations(), nullptr);
  EXPECT_THROW(ends.client.endpoint->read({}, nullptr), std::logic_error);
}

TEST(UcxReads, KeysForAKindOfMemoryThatDoesNotExistAreRefused) {
  TrustingEnds ends;
  const std::vector<std::byte> memory = pattern(4096);
  const RegisteredMemory registered(ends.registrations(), memory.data(), memory.size());
  for (const int kind : {UCS_MEMORY_TYPE_LAST + 0, 0x67, 0x80, 0xFF}) {
    std::vector<std::byte> forged = registered.packed_key();
    ASSERT_EQ(forged.at(8), std::byte{UCS_MEMORY_TYPE_HOST}) << "keys have another layout now";
    forged[8] = static_cast<std::byte>(kind);
    EXPECT_THROW(RemoteKey(*ends.client.endpoint, forged), ProtocolError) << kind;
  }
}

TEST(UcxReads, KeysOfAnImpossibleLengthAreRefused) {
  TrustingEnds ends;
  EXPECT_THROW(RemoteKey(*ends.client.endpoint, {}), ProtocolError);
  EXPECT_THROW(RemoteKey(*ends.client.endpoint, pattern(RemoteKey::kMaxBytes + 1)), ProtocolError);
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
