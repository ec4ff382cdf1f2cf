#include <array>
#include <chrono>
#include <thread>

#include "crossdock/core/error.h"
#include "suite.h"

namespace crossdock::transport::conformance {
namespace {

TEST_P(TransportConformance, OneDoesNotFallAsleepOnAMessage) {
  connect();
  put(*server_, {false, 0, pattern(8, 1)});
  let_arrive(*server_, *client_);
  EXPECT_TRUE(client_->readable());
  EXPECT_FALSE(client_->prepare_sleep());
  EXPECT_TRUE(take(*client_));
}

TEST_P(TransportConformance, AMessageRingsASleeper) {
  connect();
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(client_->prepare_sleep());
    ASSERT_TRUE(server_->send(pattern(8, 1), {}));
    ASSERT_TRUE(rung(*client_, kPatienceMs)) << "round " << round;
    client_->wake();
    ASSERT_TRUE(client_->receive());
    ASSERT_FALSE(client_->receive());
  }
}

TEST_P(TransportConformance, WakingTakesTheRingAway) {
  connect();
  ASSERT_TRUE(client_->prepare_sleep());
  ASSERT_TRUE(server_->send(pattern(8, 1), {}));
  ASSERT_TRUE(rung(*client_, kPatienceMs));
  client_->wake();
  ASSERT_TRUE(client_->receive());
  ASSERT_TRUE(client_->prepare_sleep());
  EXPECT_FALSE(rung(*client_, 0));
  client_->wake();
}

TEST_P(TransportConformance, NobodyRingsAnEndThatIsAwake) {
  connect();
  ASSERT_TRUE(client_->prepare_sleep());
  client_->wake();
  ASSERT_TRUE(server_->send(pattern(8, 1), {}));
  if (!GetParam().network) {
    EXPECT_FALSE(rung(*client_, 0));
  }
  EXPECT_TRUE(take(*client_));
}

TEST_P(TransportConformance, RoomRingsASenderThatSleeps) {
  Wishes wishes;
  wishes.small_queue = true;
  connect(wishes);
  std::size_t sent = 0;
  while (server_->send(pattern(5000, 1), {})) ASSERT_LT(++sent, 100'000u);
  ASSERT_TRUE(server_->prepare_sleep());
  bool asleep = true;
  for (std::size_t taken = 0; taken < sent;) {
    if (client_->receive()) {
      ++taken;
      continue;
    }
    // The rest waits in the sender, for whom there is room now, or is on its way.
    ASSERT_TRUE(GetParam().network);
    ASSERT_TRUE(!asleep || either_rung(*server_, *client_, kPatienceMs));
    server_->wake();
    asleep = server_->prepare_sleep();
    if (asleep) let_arrive(*server_, *client_);
  }
  EXPECT_TRUE(!asleep || rung(*server_, kPatienceMs));
  server_->wake();
  EXPECT_TRUE(server_->readable());
  EXPECT_FALSE(server_->prepare_sleep()) << "there is room: a send that was refused may work now";
  EXPECT_TRUE(server_->send(pattern(5000, 1), {}));
}

TEST_P(TransportConformance, ARefusalAfterItsOwnerWasToldOfRoomIsToldAnew) {
  Wishes wishes;
  wishes.small_queue = true;
  connect(wishes);
  const auto body = std::make_shared<const std::vector<std::byte>>(pattern(40'000, 1));
  const ByteSpan bytes(*body);
  std::size_t on_way = 0;
  const auto fill = [&] {
    while (server_->send_body(1, {&bytes, 1}, body)) ASSERT_LT(++on_way, 100'000u);
  };
  const auto drain = [&](const auto& until) {
    for (int waited_ms = 0; !until(); ++waited_ms) {
      ASSERT_LT(waited_ms, kPatienceMs);
      server_->flush();
      while (client_->receive()) --on_way;
      rung(*client_, 1);
    }
  };
  fill();
  drain([&] { return server_->readable(); });
  fill();
  // The owner's next turn, in which nothing may be lost. All that has arrived is seen then, and only the room is news.
  drain([&] {
    EXPECT_FALSE(server_->receive());
    return on_way == 0 && server_->in_flight() == 0;
  });
  EXPECT_FALSE(server_->receive());
  EXPECT_TRUE(server_->readable());
}

TEST_P(TransportConformance, ADrainedWindowRingsASenderThatSleeps) {
  connect();
  ASSERT_TRUE(server_->send(pattern(8, 1), {}));
  ASSERT_FALSE(server_->below_window(1));
  ASSERT_TRUE(server_->prepare_sleep());
  let_arrive(*server_, *client_);
  ASSERT_TRUE(client_->receive());
  EXPECT_FALSE(client_->receive());
  EXPECT_TRUE(rung(*server_, kPatienceMs));
  server_->wake();
  let_learn(*server_);
  EXPECT_TRUE(server_->below_window(1));
}

// A ring must not be lost between looking and falling asleep: the sender sends at every possible moment of that.
TEST_P(TransportConformance, NoRingIsLostInTheRaceToSleep) {
  connect();
  constexpr std::uint64_t kRounds = 20'000;
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      put(*server_, {true, i, {}});
      if (!take(*server_)) return;  // the answer; so the client is about to sleep when the next one is sent
    }
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const auto message = take(*client_);
    if (!message) break;
    ASSERT_EQ(message->tag, i);
    put(*client_, {true, i, {}});
  }
  sender.join();
}

TEST_P(TransportConformance, WaitingReturnsAtTheDeadline) {
  connect();
  for (const WaitMode mode : {WaitMode::kAuto, WaitMode::kSpin, WaitMode::kBlock}) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    EXPECT_FALSE(wait_readable(*client_, mode, deadline.time_since_epoch() / std::chrono::nanoseconds(1), {}));
    EXPECT_GE(std::chrono::steady_clock::now(), deadline);
  }
}

TEST_P(TransportConformance, WaitingReturnsForAMessageAndForTheEnd) {
  for (const WaitMode mode : {WaitMode::kAuto, WaitMode::kSpin, WaitMode::kBlock}) {
    connect();
    std::thread sender([&] {
      put(*server_, {true, 1, {}});
      server_.reset();
    });
    int messages = 0;
    EXPECT_THROW(
        for (;;) {
          if (client_->receive()) {
            ++messages;
          } else {
            EXPECT_TRUE(wait_readable(*client_, mode, 0, {}));
          }
        },
        ConnectionError);
    EXPECT_EQ(messages, 1);
    sender.join();
  }
}

TEST_P(TransportConformance, AnEndKnowsThatALongBodyIsOnItsWay) {
  connect();
  const auto bytes = std::make_shared<const std::vector<std::byte>>(pattern(16 * Connection::kBulk, 1));
  const std::array<ByteSpan, 1> parts = {*bytes};
  ASSERT_TRUE(server_->send_body(1, parts, bytes));
  EXPECT_FALSE(client_->in_bulk());
  bool in_bulk = false;
  std::optional<Incoming> in;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!in && std::chrono::steady_clock::now() < patience) {
    server_->flush();
    in = client_->receive();
    in_bulk |= !in && client_->in_bulk();
  }
  ASSERT_TRUE(in);
  EXPECT_EQ(in_bulk, GetParam().network);
  EXPECT_FALSE(client_->in_bulk());
}

TEST_P(TransportConformance, WaitingAnswersTheInterruptHook) {
  connect();
  for (const WaitMode mode : {WaitMode::kAuto, WaitMode::kSpin, WaitMode::kBlock}) {
    int asked = 0;
    EXPECT_THROW(wait_readable(*client_, mode, 0, [&] { return ++asked > 2; }), InterruptedError);
  }
}

}  // namespace
}  // namespace crossdock::transport::conformance
