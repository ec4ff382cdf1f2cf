#include "crossdock/core/error.h"
#include "suite.h"

namespace crossdock::transport::conformance {
namespace {

TEST_P(TransportConformance, WhatWasSentBeforeTheEndCanStillBeTaken) {
  connect();
  for (std::uint64_t i = 0; i < 5; ++i) put(*server_, {true, i, pattern(100, i)});
  server_.reset();
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(take(*client_), (Message{true, i, pattern(100, i)}));
  EXPECT_THROW(take(*client_), ConnectionError);
  EXPECT_THROW(client_->receive(), ConnectionError);  // and stays so
}

TEST_P(TransportConformance, TheServerSeesAClientGo) {
  connect();
  put(*client_, {false, 0, pattern(100, 1)});
  client_.reset();
  EXPECT_EQ(take(*server_), (Message{false, 0, pattern(100, 1)}));
  EXPECT_THROW(take(*server_), ConnectionError);
}

TEST_P(TransportConformance, SendingToAPeerThatIsGoneIsAnError) {
  connect();
  client_.reset();
  EXPECT_THROW(take(*server_), ConnectionError);  // known by now, however the transport learns it
  EXPECT_THROW(server_->send(pattern(8, 1), {}), ConnectionError);
  EXPECT_THROW(server_->send_tagged(1, pattern(8, 1), {}), ConnectionError);
}

TEST_P(TransportConformance, APeerThatGoesRingsASleeper) {
  connect();
  ASSERT_TRUE(client_->prepare_sleep());
  server_.reset();
  EXPECT_TRUE(rung(*client_, kPatienceMs));
  client_->wake();
  EXPECT_THROW(take(*client_), ConnectionError);
}

TEST_P(TransportConformance, AnEndThatIsGoneKeepsTheDescriptorReadable) {
  connect();
  server_.reset();
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(rung(*client_, kPatienceMs));
    client_->wake();
  }
}

TEST_P(TransportConformance, UnreadMessagesDoNotKeepAnEndFromGoing) {
  connect();
  for (std::uint64_t i = 0; i < 5; ++i) put(*server_, {true, i, pattern(100, i)});
  client_.reset();
  server_.reset();
}

}  // namespace
}  // namespace crossdock::transport::conformance
