#include "transport/ucx/remote_memory.h"

#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "support.h"

namespace crossdock::transport::ucx_test {
namespace {

const UcxOptions kTrusting = {.remote_reads = true};

TEST(UcxRemoteMemory, RegisteredMemoryIsReadByItsKey) {
  Ends ends(kLimits, kTrusting);
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
  Ends ends(kLimits, kTrusting);
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

TEST(UcxRemoteMemory, KeysThatAreNoneDoNoHarm) {
  Ends ends(kLimits, kTrusting);
  ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
  ends.receive(ends.server);
  EXPECT_THROW(RemoteKey(*ends.client.endpoint, {}), ProtocolError);
  EXPECT_THROW(RemoteKey(*ends.client.endpoint, pattern(RemoteKey::kMaxBytes + 1)), ProtocolError);
  for (unsigned seed = 0; seed < 300; ++seed) {
    for (const std::size_t size : {1u, 9u, 10u, 40u, 4096u}) {
      try {
        std::vector<std::byte> bytes = pattern(size, seed);
        if (seed % 2 == 0) bytes[0] = std::byte{0xFF};
        const RemoteKey key(*ends.client.endpoint, bytes);
      } catch (const ProtocolError&) {
      }
    }
  }
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
