#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "core/unique_fd.h"
#include "transport/net/socket_options.h"

namespace crossdock::transport::net {
namespace {

std::string algorithm_of(int socket) {
  char name[16] = {};
  socklen_t size = sizeof name;
  EXPECT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
  return name;
}

/// A socket connected over the loopback, which sends by `algorithm`; none where the system doesn't have it.
class TcpSocketOptions : public ::testing::Test {
 protected:
  bool connect(const char* algorithm) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    listening_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socket_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listening_.get(), where, size), 0);
    EXPECT_EQ(::listen(listening_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listening_.get(), where, &size), 0);
    EXPECT_EQ(::connect(socket_.get(), where, size), 0);
    return ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_CONGESTION, algorithm,
                        static_cast<socklen_t>(std::strlen(algorithm))) == 0;
  }
  UniqueFd listening_;
  UniqueFd socket_;
};

TEST_F(TcpSocketOptions, NothingIsPacedOnTheLoopback) {
  if (!connect("bbr")) GTEST_SKIP() << "this system has no BBR";
  set_up(socket_.get(), {}, "the test");
  EXPECT_NE(algorithm_of(socket_.get()), "bbr");
}

TEST_F(TcpSocketOptions, OtherAlgorithmsStay) {
  ASSERT_TRUE(connect("reno")) << "every system has it";
  set_up(socket_.get(), {}, "the test");
  EXPECT_EQ(algorithm_of(socket_.get()), "reno");
}

}  // namespace
}  // namespace crossdock::transport::net
