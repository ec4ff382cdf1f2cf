#include <thread>

#include "crossdock/core/error.h"
#include "suite.h"

/// Two ends in two threads, and the two halves of one end in two threads: for ThreadSanitizer too.
namespace crossdock::transport::conformance {
namespace {

TEST_P(TransportConformance, TwoThreadsPlayPingPong) {
  connect();
  constexpr std::uint64_t kRounds = 100'000;
  std::thread echo([&] {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      while (!server_->readable()) std::this_thread::yield();
      const auto message = take(*server_);
      if (!message) return;
      put(*server_, *message);
    }
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const Message sent{i % 2 == 0, i % 2 == 0 ? i : 0, pattern(i % 40, i)};
    put(*client_, sent);
    while (!client_->readable()) std::this_thread::yield();
    const auto got = take(*client_);
    ASSERT_EQ(got, sent) << "round " << i;
  }
  echo.join();
}

TEST_P(TransportConformance, TheHalvesOfAnEndMayBeUsedFromTwoThreads) {
  Wishes wishes;
  wishes.small_queue = true;
  connect(wishes);
  constexpr std::uint64_t kMessages = 20'000;
  const auto send_all = [](Connection& connection) {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const std::vector<std::byte> bytes = pattern(i % 700, i);
      while (!connection.send_tagged(i, bytes, {})) std::this_thread::yield();
    }
    while (!connection.flush()) std::this_thread::yield();
  };
  const auto receive_all = [](Connection& connection) {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      std::optional<Incoming> in;
      while (!(in = connection.receive())) std::this_thread::yield();
      ASSERT_EQ(in->tag, i);
      const std::vector<std::byte> expected = pattern(i % 700, i);
      ASSERT_TRUE(std::equal(in->bytes.begin(), in->bytes.end(), expected.begin(), expected.end()));
    }
  };
  std::thread server_sends(send_all, std::ref(*server_));
  std::thread server_receives(receive_all, std::ref(*server_));
  std::thread client_sends(send_all, std::ref(*client_));
  receive_all(*client_);
  server_sends.join();
  server_receives.join();
  client_sends.join();
}

TEST_P(TransportConformance, AnEndMayGoWhileTheOtherSends) {
  for (int round = 0; round < 50; ++round) {
    connect();
    std::thread sender([&] {
      try {
        for (;;) {
          if (!server_->send(pattern(100, 1), {})) std::this_thread::yield();
          server_->receive();
        }
      } catch (const ConnectionError&) {
        return;
      }
    });
    for (int taken = 0; taken < 10;) taken += client_->receive() ? 1 : 0;
    client_.reset();
    sender.join();
  }
}

}  // namespace
}  // namespace crossdock::transport::conformance
