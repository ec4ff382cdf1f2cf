// Threads that sleep by descriptor. A wake-up that is lost shows as a time-out.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "crossdock/core/error.h"
#include "support.h"
#include "transport/ucx/connection.h"
#include "transport/ucx/handshake.h"

namespace crossdock::transport::ucx_test {
namespace {

/// Takes the next message, asleep until it comes; null after the time-out.
std::optional<Received> await(Worker& worker) {
  std::optional<Received> got;
  run_until(
      {&worker}, nullptr, [&] { return (got = worker.take()).has_value(); }, 30'000);
  return got;
}

TEST(UcxWaiting, ASleepingWorkerIsWokenBySignal) {
  Ends ends;
  ASSERT_TRUE(ends.run([&] { return !ends.client.worker->sends(); }));
  while (!ends.server.worker->arm()) ends.server.worker->progress();
  pollfd event{ends.server.worker->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 0), 0);
  std::jthread other([&] { ends.server.worker->signal(); });
  EXPECT_EQ(::poll(&event, 1, 10'000), 1);
  EXPECT_FALSE(ends.server.worker->progress()) << "there is no message";
}

TEST(UcxWaiting, ArmingFailsWhileAMessageWaits) {
  Ends ends;
  ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
  ASSERT_TRUE(ends.run([&] { return ends.server.worker->progress(); }));
  EXPECT_FALSE(ends.server.worker->arm());
  EXPECT_TRUE(ends.server.worker->take().has_value());
}

TEST(UcxWaiting, NoWakeUpIsLostBetweenTwoThreadsThatAnswerEachOther) {
  Ends ends;
  constexpr unsigned kRounds = 1500;
  const auto size_of = [](unsigned round) -> std::size_t {
    return round % 50 == 0 ? 1'000'000 : round % 7 == 0 ? 30'000 : 64;
  };
  std::jthread server([&] {
    for (unsigned i = 0; i < kRounds; ++i) {
      const auto got = await(*ends.server.worker);
      if (!got) return;
      ends.server.endpoint->send_tagged(got->tag, got->bytes, {});
    }
    run_until({ends.server.worker.get()}, nullptr, [&] { return ends.server.worker->sends() == 0; });
  });
  for (unsigned i = 0; i < kRounds; ++i) {
    const std::vector<std::byte> sent = pattern(size_of(i), i);
    ASSERT_TRUE(ends.client.endpoint->send_tagged(i, sent, {}));
    const auto got = await(*ends.client.worker);
    ASSERT_TRUE(got.has_value()) << "round " << i;
    ASSERT_EQ(got->tag, i);
    ASSERT_TRUE(same(got->bytes, sent));
  }
}

TEST(UcxWaiting, AThreadThatOnlySendsNeedsNoProgressOfItsOwn) {
  Ends ends;
  constexpr std::uint64_t kBodies = 40;
  const auto body = std::make_shared<const std::vector<std::byte>>(pattern(2'000'000));
  const std::array<ByteSpan, 1> parts = {*body};
  std::atomic<bool> done{false};
  // The client's receiving half sleeps, while another thread sends by the same endpoint.
  std::jthread receiving_half([&] {
    run_until(
        {ends.client.worker.get()}, nullptr, [&] { return done.load(); }, 60'000);
  });
  std::jthread sending_half([&] {
    for (std::uint64_t i = 0; i < kBodies; ++i) ends.client.endpoint->send_body(i, parts, body);
  });
  for (std::uint64_t i = 0; i < kBodies; ++i) {
    const auto got = await(*ends.server.worker);
    ASSERT_TRUE(got.has_value()) << i;
    ASSERT_EQ(got->tag, i);
    ASSERT_TRUE(same(got->bytes, *body));
  }
  done = true;
  ends.client.worker->signal();
}

/// Else the network could be gone, and a client that only receives wouldn't notice.
TEST(UcxWaiting, AClientThatWaitsSendsSomethingFromTimeToTime) {
  Ends ends;
  UcxConnection client(ends.client.worker, std::move(ends.client.endpoint), Introduction{},
                       {.keepalive = std::chrono::seconds(1)}, nullptr);
  std::atomic<bool> done{false};
  std::jthread waiting([&] {
    while (!done) {
      try {
        wait_readable(client, WaitMode::kBlock, 0, [&] { return done.load(); });
      } catch (const InterruptedError&) {
        return;
      }
      EXPECT_FALSE(client.receive().has_value());
    }
  });
  for (int i = 0; i < 2; ++i) {
    const auto got = await(*ends.server.worker);
    if (!got) {
      ADD_FAILURE() << "nothing came";
      break;
    }
    Control control;
    EXPECT_EQ(got->kind, MessageKind::kControl);
    EXPECT_TRUE(decode(got->bytes, &control));
    EXPECT_EQ(control.kind, ControlKind::kTaken);
    EXPECT_EQ(control.number, 0u);
  }
  done = true;
}

/// A client's connection, and the bare end of a server that reads its acknowledgements.
class UcxAcknowledgements : public ::testing::Test {
 protected:
  UcxAcknowledgements()
      : client_(ends_.client.worker, std::move(ends_.client.endpoint), Introduction{},
                {.keepalive = std::chrono::seconds(0)}, nullptr) {}

  void send_and_take(int messages) {
    for (int i = 0; i < messages; ++i) {
      ASSERT_TRUE(ends_.server.endpoint->send_untagged(as_bytes("x"), {}));
      while (!client_.receive()) {
        ends_.server.worker->progress();
        ASSERT_TRUE(wait_readable(client_, WaitMode::kSpin, 0, nullptr));
      }
    }
  }
  /// What has come; 0: nothing.
  std::uint64_t acknowledged() {
    ends_.server.worker->progress();
    Control control{ControlKind::kTaken, 0};
    while (const auto got = ends_.server.worker->take()) {
      EXPECT_EQ(got->kind, MessageKind::kControl);
      EXPECT_TRUE(decode(got->bytes, &control));
      EXPECT_EQ(control.kind, ControlKind::kTaken);
    }
    return control.number;
  }
  /// Waits until something has come.
  std::uint64_t wait_until_acknowledged() {
    EXPECT_TRUE(run_until({ends_.server.worker.get()}, nullptr, [&] { return ends_.server.worker->ready(); }));
    return acknowledged();
  }

  Ends ends_;
  UcxConnection client_;
};

TEST_F(UcxAcknowledgements, WaitForAWhileAndAreNotLostWhereNothingMoreComes) {
  send_and_take(1);
  EXPECT_FALSE(client_.receive());
  EXPECT_EQ(acknowledged(), 0u) << "the next message would have to wait for it";
  EXPECT_TRUE(wait_readable(client_, WaitMode::kSpin, 0, nullptr)) << "a thread that spins has something to do";
  EXPECT_EQ(acknowledged(), 0u);
  EXPECT_FALSE(client_.receive());
  EXPECT_EQ(wait_until_acknowledged(), 1u);
  for (int i = 0; i < 2 * net::Acknowledgements::kEmptyTurns; ++i) ASSERT_FALSE(client_.readable()) << "told once only";
}

TEST_F(UcxAcknowledgements, GoBeforeAThreadSleeps) {
  send_and_take(2);
  while (!client_.prepare_sleep()) EXPECT_FALSE(client_.receive());
  client_.wake();
  EXPECT_EQ(wait_until_acknowledged(), 2u);
}

TEST_F(UcxAcknowledgements, GoWhenTheyAreAskedFor) {
  send_and_take(3);
  client_.acknowledge_all();
  EXPECT_EQ(wait_until_acknowledged(), 3u);
  client_.acknowledge_all();
  EXPECT_EQ(acknowledged(), 0u) << "there is nothing to tell";
}

TEST_F(UcxAcknowledgements, GoAfterAQuarterOfTheWindow) {
  ASSERT_TRUE(ends_.server.endpoint->send_control(encode(Control{ControlKind::kWindow, 8})));
  send_and_take(1);
  EXPECT_EQ(acknowledged(), 0u);
  send_and_take(1);
  EXPECT_EQ(wait_until_acknowledged(), 2u);
}

TEST_F(UcxAcknowledgements, GoWhenTheServerSaysGoodbye) {
  send_and_take(1);
  ASSERT_TRUE(ends_.server.endpoint->send_control(encode(Control{ControlKind::kGoodbye, 1})));
  const auto until_the_end = [&] {
    for (;;) {
      EXPECT_FALSE(client_.receive());
      ends_.server.worker->progress();
    }
  };
  EXPECT_THROW(until_the_end(), ConnectionError);
  EXPECT_EQ(wait_until_acknowledged(), 1u);
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
