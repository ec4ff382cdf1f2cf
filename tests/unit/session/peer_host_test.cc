#include "session/flight/peer_host.h"

#include <gtest/gtest.h>

namespace crossdock::session {
namespace {

TEST(PeerHost, IsTheAddressInGrpcsText) {
  EXPECT_EQ(peer_host("ipv4:10.0.0.7:51112"), "10.0.0.7");
  EXPECT_EQ(peer_host("ipv6:%5B::1%5D:51112"), "::1");
  EXPECT_EQ(peer_host("ipv6:[2001:db8::2]:1"), "2001:db8::2");
  EXPECT_EQ(peer_host("ipv6:%5B::ffff:10.0.0.7%5D:51112"), "10.0.0.7") << "one host, however it has connected";
  for (const char* none : {"", "unix:", "unix:/run/x.sock", "ipv4:", "ipv6:", "ipv4:5", "10.0.0.7:1"}) {
    EXPECT_EQ(peer_host(none), "") << none;
  }
}

}  // namespace
}  // namespace crossdock::session
