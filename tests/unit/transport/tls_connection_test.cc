// Connections of tcp+tls, after the handshake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tls_support.h"

namespace crossdock::transport::tls_test {
namespace {

class TlsConnection : public ::testing::Test {
 protected:
  TlsConnection() : listener_(tcp_tls_listen("", 1, 2, {}, certificates().server_options(), nullptr)) {
    std::jthread connecting([this] {
      client_ = tcp_tls_connect(address_of(*listener_), {}, certificates().client_options(), 10'000, nullptr);
    });
    server_ = accept_one(*listener_);
  }

  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> client_;
  std::unique_ptr<Connection> server_;
};

// The rest of a body and what follows it come in one record: the messages after the first few are in OpenSSL's hands
// then, and the socket has nothing more.
TEST_F(TlsConnection, NobodySleepsWhileOpenSslHasDataInHand) {
  const std::vector<std::byte> body(100, std::byte{7});
  const std::vector<std::byte> message(100, std::byte{8});
  constexpr int kMessages = 120;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < kMessages; ++i) {
      if (i == kMessages / 2) {
        ASSERT_TRUE(server_->send_body(1, std::array<ByteSpan, 1>{body}, nullptr));
        continue;
      }
      server_->cork();
      ASSERT_TRUE(server_->send(message, {}));
    }
    ASSERT_TRUE(server_->flush());
    for (int got = 0; got < kMessages;) {
      if (client_->receive()) {
        ++got;
      } else {
        ASSERT_TRUE(wait_readable(*client_, WaitMode::kBlock, in_ms(5'000), nullptr)) << got;
      }
    }
    ASSERT_FALSE(client_->receive());
    EXPECT_FALSE(client_->readable()) << "it doesn't spin either";
  }
}

TEST_F(TlsConnection, BothHalvesCarryBodiesAtTheSameTime) {
  const auto body = std::make_shared<const std::vector<std::byte>>(3'000'001, std::byte{42});
  const auto run = [&](Connection& connection) {
    constexpr int kBodies = 20;
    std::jthread sending([&] {
      for (int sent = 0; sent < kBodies;) {
        if (connection.send_body(1, std::array<ByteSpan, 1>{*body}, body))
          ++sent;
        else
          std::this_thread::yield();
      }
      while (!connection.flush()) std::this_thread::yield();
    });
    for (int got = 0; got < kBodies;) {
      if (const auto message = connection.receive()) {
        EXPECT_EQ(message->bytes.size(), body->size());
        EXPECT_TRUE(std::ranges::equal(message->bytes, *body));
        ++got;
      } else {
        ASSERT_TRUE(wait_readable(connection, WaitMode::kBlock, in_ms(60'000), nullptr));
      }
    }
  };
  std::jthread other([&] { run(*client_); });
  run(*server_);
}

TEST_F(TlsConnection, ADestroyedPeerHasClosedTheConnection) {
  server_.reset();
  try {
    while (!client_->receive()) ASSERT_TRUE(wait_readable(*client_, WaitMode::kBlock, in_ms(5'000), nullptr));
    ADD_FAILURE() << "a message";
  } catch (const ConnectionError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("has closed the connection"));
  }
}

}  // namespace
}  // namespace crossdock::transport::tls_test
