#include "transport/ucx/remote_memory.h"

#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "support.h"

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
};

TEST(UcxRemoteMemory, RegisteredMemoryIsReadByItsKey) {
  TrustingEnds ends;
  const std::vector<std::byte> memory = pattern(3'000'000);
  const auto base = reinterpret_cast<std::uint64_t>(memory.data());
  const RegisteredMemory registered(ends.contexts.for_local(ends.listener->address()), memory.data(), memory.size());
  EXPECT_FALSE(registered.packed_key().empty());
  const RemoteKey key(*ends.client.endpoint, registered.packed_key());
  for (const std::size_t size : {1u, 5000u, 3'000'000u}) {
    auto to = std::make_shared<std::vector<std::byte>>(size);
    const std::size_t offset = memory.size() - size;
    auto read = ends.client.endpoint->read(key, base + offset, to->data(), size, to);
    ASSERT_TRUE(read.has_value());
    ASSERT_TRUE(ends.run([&] { return read->done(); }));
    EXPECT_TRUE(same(*to, ByteSpan(memory).subspan(offset)));
    EXPECT_EQ(to.use_count(), 1) << "the read is over";
  }
}

TEST(UcxRemoteMemory, AReadEndsWithItsPeer) {
  TrustingEnds ends;
  const std::vector<std::byte> memory = pattern(30'000'000);
  auto registered = std::make_unique<RegisteredMemory>(ends.contexts.for_local(ends.listener->address()), memory.data(),
                                                       memory.size());
  const RemoteKey key(*ends.client.endpoint, registered->packed_key());
  auto to = std::make_shared<std::vector<std::byte>>(memory.size());
  auto read =
      ends.client.endpoint->read(key, reinterpret_cast<std::uint64_t>(memory.data()), to->data(), to->size(), to);
  ASSERT_TRUE(read.has_value());
  ends.server.worker->progress();
  ends.server.close();
  EXPECT_THROW(run_until({ends.client.worker.get()}, nullptr, [&] { return read->done(); }), ConnectionError);
}

TEST(UcxRemoteMemory, NothingIsReadWithoutTheOption) {
  Ends ends;
  const std::vector<std::byte> memory = pattern(100);
  EXPECT_THROW(RegisteredMemory(ends.contexts.for_local(ends.listener->address()), memory.data(), memory.size()),
               std::logic_error);
}

TEST(UcxRemoteMemory, KeysOfAnImpossibleLengthAreRefused) {
  TrustingEnds ends;
  EXPECT_THROW(RemoteKey(*ends.client.endpoint, {}), ProtocolError);
  EXPECT_THROW(RemoteKey(*ends.client.endpoint, pattern(RemoteKey::kMaxBytes + 1)), ProtocolError);
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
