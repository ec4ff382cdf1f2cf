#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <numeric>

#include "crossdock/core/error.h"
#include "support.h"

namespace crossdock::transport::ucx_test {
namespace {

using ::testing::HasSubstr;

constexpr std::array<std::size_t, 12> kSizes = {0,     1,       63,      4096,          8191,      8193,
                                                70000, 100'000, 1 << 20, (1 << 20) + 1, 5'000'001, 16 << 20};

TEST(UcxMessages, UntaggedOnesOfAllSizesCross) {
  Ends ends;
  for (const std::size_t size : kSizes) {
    const std::vector<std::byte> sent = pattern(size, static_cast<unsigned>(size));
    const std::size_t head = size / 3;
    ASSERT_TRUE(ends.client.endpoint->send_untagged(ByteSpan(sent).first(head), ByteSpan(sent).subspan(head)));
    const Received got = ends.receive(ends.server);
    EXPECT_EQ(got.kind, MessageKind::kUntagged);
    EXPECT_EQ(got.bytes.size(), size);
    EXPECT_TRUE(same(got.bytes, sent)) << size;
    ASSERT_TRUE(ends.run([&] { return ends.client.worker->sends() == 0; }));
  }
}

TEST(UcxMessages, TaggedOnesOfAllSizesCrossBothWays) {
  Ends ends;
  for (const std::size_t size : kSizes) {
    const std::vector<std::byte> sent = pattern(size, 1);
    const std::uint64_t tag = 0xFEDC'BA98'7654'3210 + size;
    for (auto* const from : {&ends.client, &ends.server}) {
      ASSERT_TRUE(from->endpoint->send_tagged(tag, sent, {}));
      const Received got = ends.receive(from == &ends.client ? ends.server : ends.client);
      EXPECT_EQ(got.kind, MessageKind::kTagged);
      EXPECT_EQ(got.tag, tag);
      EXPECT_TRUE(same(got.bytes, sent)) << size;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.bytes.data()) % 64, 0u);
      ASSERT_TRUE(ends.run([&] { return from->worker->sends() == 0; }));
    }
  }
}

TEST(UcxMessages, GathersOfManyPartsCross) {
  Ends ends;
  for (const std::size_t count : {1u, 2u, 4u, 5u, 64u, 1000u, 4096u, 50'000u}) {
    for (const std::size_t part : {std::size_t{3}, std::size_t{301}}) {
      const std::vector<std::byte> sent = pattern(count * part, static_cast<unsigned>(count));
      std::vector<ByteSpan> parts;
      for (std::size_t i = 0; i < count; ++i) {
        parts.push_back(ByteSpan(sent).subspan(i * part, part));
        if (i % 3 == 0) parts.emplace_back();  // an empty one
      }
      ASSERT_TRUE(ends.server.endpoint->send_body(count, parts, nullptr));
      parts.clear();
      const Received got = ends.receive(ends.client);
      EXPECT_EQ(got.tag, count);
      EXPECT_TRUE(same(got.bytes, sent)) << count << " parts of " << part;
    }
  }
}

TEST(UcxMessages, AGatherOfNothingIsAnEmptyMessage) {
  Ends ends;
  const std::vector<ByteSpan> empty(3);
  ASSERT_TRUE(ends.server.endpoint->send_body(7, {}, nullptr));
  ASSERT_TRUE(ends.server.endpoint->send_body(8, empty, nullptr));
  for (const std::uint64_t tag : {7u, 8u}) {
    const Received got = ends.receive(ends.client);
    EXPECT_EQ(got.tag, tag);
    EXPECT_EQ(got.bytes.size(), 0u);
    EXPECT_NE(got.owner, nullptr);
  }
}

TEST(UcxMessages, KindsAreToldApart) {
  Ends ends;
  ASSERT_TRUE(ends.client.endpoint->send_control(as_bytes("hello")));
  ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("un"), as_bytes("tagged")));
  ASSERT_TRUE(ends.client.endpoint->send_tagged(5, as_bytes("tagged"), {}));
  std::vector<std::string> got;
  for (int i = 0; i < 3; ++i) {
    const Received message = ends.receive(ends.server);
    got.push_back(std::to_string(static_cast<int>(message.kind)) + " " + std::string(as_text(message.bytes)));
  }
  EXPECT_THAT(got, ::testing::ElementsAre("1 hello", "0 untagged", "2 tagged"));
}

TEST(UcxMessages, ComeInTheOrderInWhichTheyWereSent) {
  Ends ends;
  constexpr unsigned kCount = 100;
  // Messages that come whole, in pieces and by rendezvous, of all kinds.
  const auto size_of = [](unsigned i) -> std::size_t {
    return std::array<std::size_t, 5>{8, 200'000, 16, 20'000, 3'000'000}[i % 5];
  };
  ends.client.endpoint->limit_copies(1 << 30);
  unsigned sent = 0;
  unsigned received = 0;
  ASSERT_TRUE(ends.run(
      [&] {
        while (sent < kCount && sent < received + 20) {
          const std::vector<std::byte> bytes = pattern(size_of(sent), sent);
          const bool placed = sent % 2 == 0 ? ends.client.endpoint->send_untagged(bytes, {})
                                            : ends.client.endpoint->send_tagged(sent, bytes, {});
          if (!placed) break;
          ++sent;
        }
        while (const auto message = ends.server.worker->take()) {
          EXPECT_EQ(message->kind, received % 2 == 0 ? MessageKind::kUntagged : MessageKind::kTagged) << received;
          EXPECT_TRUE(same(message->bytes, pattern(size_of(received), received))) << received;
          ++received;
        }
        return received == kCount || ::testing::Test::HasFailure();
      },
      60'000));
}

/// Counts what it allocates.
class CountedMemory final : public BodyMemory {
 public:
  std::shared_ptr<std::byte> allocate(std::uint64_t size) override {
    sizes.push_back(size);
    if (refuse) throw ResourceError("no memory in this test");
    last = pool_->allocate(size);
    return last;
  }
  std::vector<std::uint64_t> sizes;
  std::shared_ptr<std::byte> last;
  bool refuse = false;

 private:
  std::shared_ptr<BodyMemory> pool_ = make_body_pool();
};

TEST(UcxMessages, BodiesAreReceivedIntoTheCallersMemory) {
  Ends ends;
  const auto memory = std::make_shared<CountedMemory>();
  ends.client.worker->receive_into(memory);
  const std::vector<std::byte> sent = pattern(2'000'000);
  const std::array<ByteSpan, 1> parts = {sent};
  ASSERT_TRUE(ends.server.endpoint->send_body(1, parts, nullptr));
  const Received got = ends.receive(ends.client);
  EXPECT_EQ(got.bytes.data(), memory->last.get());
  EXPECT_EQ(memory->sizes, std::vector<std::uint64_t>{sent.size()});
  EXPECT_TRUE(same(got.bytes, sent));
}

TEST(UcxMessages, AMessageOverALimitIsRefusedBeforeMemoryIsTaken) {
  for (const std::size_t size : {2000u, 9'000u, 100'000u, 5'000'000u}) {
    Ends ends({.max_untagged = 1000, .max_control = 1000, .max_tagged = 1000});
    const auto memory = std::make_shared<CountedMemory>();
    ends.server.worker->receive_into(memory);
    const std::vector<std::byte> large = pattern(size);
    ASSERT_TRUE(ends.client.endpoint->send_tagged(1, as_bytes("before"), {}));
    ASSERT_TRUE(ends.client.endpoint->send_tagged(2, large, {}));
    ASSERT_TRUE(ends.client.endpoint->send_tagged(3, as_bytes("after"), {}));
    EXPECT_EQ(as_text(ends.receive(ends.server).bytes), "before");
    for (int i = 0; i < 2; ++i) {
      try {
        ends.receive(ends.server);
        FAIL() << "no error";
      } catch (const ProtocolError& error) {
        EXPECT_THAT(error.what(), HasSubstr("the client sent a tagged message of " + std::to_string(size) +
                                            " bytes; the limit here is 1000"));
      }
    }
    EXPECT_EQ(memory->sizes, std::vector<std::uint64_t>{6}) << "memory of the message before only";
  }
}

TEST(UcxMessages, UntaggedAndControlMessagesHaveLimitsToo) {
  for (const std::size_t size : {2000u, 5'000'000u}) {
    const std::vector<std::byte> large = pattern(size);
    Ends ends({.max_untagged = 1000, .max_control = 1000, .max_tagged = 1000});
    ASSERT_TRUE(ends.client.endpoint->send_untagged(large, {}));
    EXPECT_THROW(ends.receive(ends.server), ProtocolError);
    Ends others({.max_untagged = 1 << 30, .max_control = 1000, .max_tagged = 1000});
    ASSERT_TRUE(others.client.endpoint->send_control(large));
    EXPECT_THROW(others.receive(others.server), ProtocolError);
  }
}

TEST(UcxMessages, MemoryThatIsRefusedEndsTheConnectionAfterTheMessagesBefore) {
  Ends ends;
  const auto memory = std::make_shared<CountedMemory>();
  memory->refuse = true;
  ends.server.worker->receive_into(memory);
  ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("before"), {}));
  ASSERT_TRUE(ends.client.endpoint->send_tagged(2, pattern(3'000'000), {}));
  ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("after"), {}));
  EXPECT_EQ(as_text(ends.receive(ends.server).bytes), "before");
  EXPECT_THROW(ends.receive(ends.server), ResourceError);
  EXPECT_THROW(ends.receive(ends.server), ResourceError);
}

TEST(UcxMessages, TheQueueIsBounded) {
  ReceiveLimits limits = kLimits;
  limits.queue_messages = 10;
  limits.queue_bytes = 4 << 20;
  Ends ends(limits);
  ends.client.endpoint->limit_copies(1 << 10);
  const auto memory = std::make_shared<CountedMemory>();
  ends.server.worker->receive_into(memory);
  const auto body = std::make_shared<const std::vector<std::byte>>(pattern(1'500'000));
  const std::array<ByteSpan, 1> parts = {*body};
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(ends.client.endpoint->send_body(i, parts, body));
  // Nobody takes: two bodies have room.
  ASSERT_TRUE(ends.run([&] { return memory->sizes.size() == 2; }));
  EXPECT_FALSE(ends.run([&] { return memory->sizes.size() > 2; }, 200));
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Received got = ends.receive(ends.server);
    EXPECT_EQ(got.tag, i);
    EXPECT_TRUE(same(got.bytes, *body));
  }
  EXPECT_EQ(memory->sizes.size(), 20u);
}

/// Together they would all end late.
TEST(UcxMessages, LargeBodiesAreReceivedOneAfterAnother) {
  Ends ends;
  const auto memory = std::make_shared<CountedMemory>();
  ends.client.worker->receive_into(memory);
  ASSERT_TRUE(ends.server.endpoint->send_tagged(100, as_bytes("connected"), {}));
  EXPECT_EQ(ends.receive(ends.client).tag, 100u);
  const std::vector<std::byte> body = pattern(3'000'000);
  const std::array<ByteSpan, 1> parts = {body};
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(ends.server.endpoint->send_body(i, parts, nullptr));
  const auto begun = [&] { return memory->sizes.size() - 1; };
  // The server makes no progress, so that none ends.
  ASSERT_TRUE(run_until({ends.client.worker.get()}, nullptr, [&] { return begun() >= 2; }));
  EXPECT_FALSE(run_until(
      {ends.client.worker.get()}, nullptr, [&] { return begun() > 2; }, 100));
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(ends.receive(ends.client).tag, i);
  EXPECT_EQ(begun(), 8u);
}

/// The sender decides whether a message comes whole: the receiver counts all that waits behind one that isn't there.
class UcxUnfinishedMessage : public ::testing::Test {
 protected:
  UcxUnfinishedMessage() {
    limits_.queue_bytes = 2 << 20;
    ends_.server.worker->limit(limits_);
    EXPECT_TRUE(ends_.client.endpoint->send_untagged(as_bytes("connected"), {}));
    EXPECT_EQ(as_text(ends_.receive(ends_.server).bytes), "connected");
  }
  /// The client tells of a message, and from now on makes no progress, so that its bytes don't come.
  void begin(bool tagged) {
    const std::vector<std::byte> first = pattern(kFirst);
    Endpoint& client = *ends_.client.endpoint;
    ASSERT_TRUE(tagged ? client.send_tagged(1, first, {}) : client.send_untagged(first, {}));
    ASSERT_TRUE(
        run_until({ends_.server.worker.get()}, nullptr, [&] { return ends_.server.worker->expected_bytes() > 0; }));
  }
  /// Sends messages that come whole until the server has ended the queue, or has accepted this many bytes. Returns
  /// how many bytes it has got.
  std::size_t send_until_refused(std::size_t size, bool tagged, std::size_t most) {
    const std::vector<std::byte> message = pattern(size);
    Endpoint& client = *ends_.client.endpoint;
    std::size_t sent = 0;
    for (; sent < most; sent += size) {
      EXPECT_TRUE(tagged ? client.send_tagged(2, message, {}) : client.send_untagged(message, {}));
      for (int i = 0; i < 3; ++i) ends_.server.worker->progress();
      try {
        ends_.server.worker->throw_failure();
      } catch (const ProtocolError& error) {
        EXPECT_THAT(error.what(), HasSubstr("behind one that it doesn't finish"));
        return sent;
      }
    }
    return sent;
  }

  static constexpr std::size_t kFirst = 3 << 20;
  static constexpr std::size_t kSmall = 6000;
  static constexpr std::size_t kMost = 64 << 20;  // twice what is accepted, and what has been begun
  ReceiveLimits limits_ = kLimits;
  Ends ends_;
};

TEST_F(UcxUnfinishedMessage, BoundsWhatComesWholeBehindIt) {
  begin(/*tagged=*/false);
  EXPECT_LT(send_until_refused(kSmall, /*tagged=*/false, kMost), kMost);
  EXPECT_THROW(ends_.server.worker->take(), ProtocolError) << "the rest of the first one is not waited for";
}

TEST_F(UcxUnfinishedMessage, BoundsTaggedOnesToo) {
  begin(/*tagged=*/true);
  EXPECT_LT(send_until_refused(kSmall, /*tagged=*/true, kMost), kMost);
}

TEST_F(UcxUnfinishedMessage, IsCompletedLate) {
  begin(/*tagged=*/false);
  constexpr std::size_t kCount = 1000;
  EXPECT_EQ(send_until_refused(kSmall, /*tagged=*/false, kCount * kSmall), kCount * kSmall);
  EXPECT_TRUE(same(ends_.receive(ends_.server).bytes, pattern(kFirst)));
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(same(ends_.receive(ends_.server).bytes, pattern(kSmall))) << i;
  }
}

TEST(UcxMessages, SendsAreRefusedWhileThePeerTakesNothing) {
  ReceiveLimits limits = kLimits;
  limits.queue_messages = 4;
  Ends ends(limits);
  ends.client.endpoint->limit_copies(256 << 10);
  const std::vector<std::byte> message = pattern(4000);
  int sent = 0;
  // The server makes no progress: sockets and queue fill up.
  while (ends.client.endpoint->send_untagged(message, {})) {
    ASSERT_LT(++sent, 100'000);
    ends.client.worker->progress();
  }
  EXPECT_LE(ends.client.worker->copied_bytes(), std::size_t{256 << 10});
  for (int i = 0; i < sent; ++i) ASSERT_TRUE(same(ends.receive(ends.server).bytes, message));
  EXPECT_TRUE(ends.client.endpoint->send_untagged(message, {})) << "there is room again";
}

TEST(UcxMessages, WhatKeepsABodyIsDroppedWhenItWasSent) {
  Ends ends;
  for (const std::size_t size : {100u, 6'000'000u}) {
    auto body = std::make_shared<const std::vector<std::byte>>(pattern(size));
    const std::weak_ptr<const std::vector<std::byte>> alive = body;
    const std::array<ByteSpan, 2> parts = {ByteSpan(*body).first(size / 2), ByteSpan(*body).subspan(size / 2)};
    ASSERT_TRUE(ends.server.endpoint->send_body(1, parts, std::move(body)));
    EXPECT_TRUE(same(ends.receive(ends.client).bytes, pattern(size)));
    EXPECT_TRUE(ends.run([&] { return alive.expired(); }));
  }
}

/// An owner that uses the endpoint when it is dropped.
TEST(UcxMessages, WhatKeepsABodyIsDroppedWithoutTheLock) {
  Ends ends;
  const std::vector<std::byte> bytes = pattern(6'000'000);
  bool dropped = false;
  const std::shared_ptr<void> keep(nullptr, [&](void*) {
    EXPECT_TRUE(ends.server.endpoint->send_untagged(as_bytes("dropped"), {}));
    dropped = true;
  });
  const std::array<ByteSpan, 1> parts = {bytes};
  ASSERT_TRUE(ends.server.endpoint->send_body(1, parts, std::shared_ptr<const void>(bytes.data(), [keep](auto*) {})));
  const_cast<std::shared_ptr<void>&>(keep).reset();
  EXPECT_EQ(ends.receive(ends.client).bytes.size(), bytes.size());
  EXPECT_EQ(as_text(ends.receive(ends.client).bytes), "dropped");
  EXPECT_TRUE(dropped);
}

TEST(UcxMessages, EndsMayBeDestroyedInAnyState) {
  for (int step = 0; step < 24; ++step) {
    auto body = std::make_shared<const std::vector<std::byte>>(pattern(20'000'000));
    const std::weak_ptr<const std::vector<std::byte>> alive = body;
    {
      Ends ends;
      const std::array<ByteSpan, 1> parts = {*body};
      for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(ends.server.endpoint->send_body(i, parts, body));
      for (int i = 0; i < 50; ++i) ends.client.endpoint->send_untagged(pattern(1000), {});
      body.reset();
      for (int i = 0; i < step; ++i) {
        ends.client.worker->progress();
        ends.server.worker->progress();
      }
      End& first = step % 2 == 0 ? ends.client : ends.server;
      if (step % 3 == 0) first.endpoint.reset();  // its operations are under way still
      if (step % 3 == 1) first.endpoint->finish();
      first.worker->progress();
      first.close();
      if (step % 4 == 0) ends.listener.reset();
    }
    EXPECT_TRUE(alive.expired()) << step;
  }
}

TEST(UcxMessages, FinishedIsAfterEveryMessage) {
  Ends ends;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(ends.client.endpoint->send_untagged(pattern(1000), {}));
  ends.client.endpoint->finish();
  EXPECT_THROW(ends.client.endpoint->send_untagged({}, {}), ClosedError);
  int received = 0;
  EXPECT_TRUE(ends.run([&] {
    while (ends.server.worker->take()) ++received;
    return ends.client.endpoint->flushed() && received == 50;
  }));
  EXPECT_EQ(ends.client.endpoint->failure(), std::nullopt);
  ends.client.endpoint.reset();
  EXPECT_TRUE(ends.run([&] { return ends.server.endpoint->failure().has_value(); }));
  EXPECT_THROW(ends.server.endpoint->send_untagged({}, {}), ConnectionError);
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
