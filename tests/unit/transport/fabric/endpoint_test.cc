// Endpoints alone, without a link.
#include "transport/fabric/endpoint.h"

#include "support.h"

namespace crossdock::transport::fabric_test {
namespace {

class FabricEndpoint : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
    const SocketAddress host = without_port(resolve("fabric", parse_address("fabric", GetParam())).at(0));
    const UniqueFd socket(::socket(host.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket || ::bind(socket.get(), host.get(), host.size) != 0) GTEST_SKIP() << "this machine has no such address";
    const FabricDomains domains({}, FabricOptions{}.provider);
    here_ = Endpoint::make(domains.beside(socket.get()));
    peer_ = Endpoint::make(here_->shared_domain());
    here_->set_peer(with_port(host, peer_->port()));
    peer_->set_peer(with_port(host, here_->port()));
    here_->await_opening(1);
    peer_->await_opening(2);
    const auto deadline = in_patience();
    while (!here_->opened() || !peer_->opened()) {
      here_->send_opening(2);
      if (peer_->received_opening()) peer_->send_opening(1);
      progress();
      ASSERT_LT(Clock::now(), deadline);
    }
  }
  void progress() {
    here_->progress();
    if (peer_) peer_->progress();
  }
  void progress_for(std::chrono::milliseconds time) {
    for (const auto end = Clock::now() + time; Clock::now() < end;) progress();
  }

  EndpointPtr here_;
  EndpointPtr peer_;
};

TEST_P(FabricEndpoint, ReceivesAMessageThatCameFirst) {
  const Bytes body = pattern(1 << 20);
  const iovec part{const_cast<std::byte*>(body.data()), body.size()};
  ASSERT_TRUE(peer_->send({&part, 1}, 50, std::make_shared<Counted>(Operation::Kind::kSend)));
  progress_for(std::chrono::milliseconds(20));
  Bytes to(body.size());
  const auto received = std::make_shared<Counted>(Operation::Kind::kReceive);
  ASSERT_TRUE(here_->receive(to.data(), to.size(), 50, received));
  const auto deadline = in_patience();
  while (!received->done && Clock::now() < deadline) progress();
  EXPECT_EQ(to, body);
}

TEST_P(FabricEndpoint, RefusesAMessageWhoseSenderIsGone) {
  const Bytes body = pattern(1 << 20);
  const iovec part{const_cast<std::byte*>(body.data()), body.size()};
  ASSERT_TRUE(peer_->send({&part, 1}, 50, std::make_shared<Counted>(Operation::Kind::kSend)));
  progress_for(std::chrono::milliseconds(20));
  peer_.reset();
  progress_for(std::chrono::milliseconds(20));
  Bytes to(body.size());
  const auto received = std::make_shared<Counted>(Operation::Kind::kReceive);
  EXPECT_THROW(here_->receive(to.data(), to.size(), 50, received), Error);
  EXPECT_EQ(received.use_count(), 1) << "the endpoint has nothing to do with it";
}

TEST_P(FabricEndpoint, ClosesConnectionsOverWhichNothingCame) {
  const SocketAddress port =
      with_port(without_port(resolve("fabric", parse_address("fabric", GetParam())).at(0)), here_->port());
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back(::socket(port.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(strangers.back().get(), port.get(), port.size), 0);
  }
  progress_for(std::chrono::milliseconds(50));
  here_.reset();
  for (const UniqueFd& stranger : strangers) {
    pollfd ask{stranger.get(), POLLIN | POLLRDHUP, 0};
    EXPECT_EQ(::poll(&ask, 1, kPatienceMs), 1) << "the other end is still open";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FabricEndpoint, ::testing::Values("//127.0.0.1:1", "//[::1]:1"),
                         [](const auto& family) { return std::string(family.index == 0 ? "IPv4" : "IPv6"); });

}  // namespace
}  // namespace crossdock::transport::fabric_test
