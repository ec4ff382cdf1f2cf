#include "transport/tcp/address.h"

#include <gtest/gtest.h>

#include "crossdock/core/error.h"

namespace crossdock::transport::tcp {
namespace {

TEST(TcpAddress, IsTakenApart) {
  const auto expect = [](const char* address, const char* host, std::uint16_t port) {
    const HostPort got = parse_address(address);
    EXPECT_EQ(got.host, host) << address;
    EXPECT_EQ(got.port, port) << address;
  };
  expect("", "", 0);
  expect("//", "", 0);
  expect("//:7700", "", 7700);
  expect("//host", "host", 0);
  expect("//host:1/", "host", 1);
  expect("//10.0.0.7:65535", "10.0.0.7", 65535);
  expect("//[::1]:7700", "::1", 7700);
  expect("//[fe80::1%eth0]", "fe80::1%eth0", 0);
  expect("//*:80", "*", 80);
}

TEST(TcpAddress, BadOnesAreNamed) {
  for (const char* bad : {"host:1", "/host:1", "//host:65536", "//host:-1", "//host:x", "//host:1x", "//host:", "//::1",
                          "//::1:7700", "//[::1", "//[::1]7700", "//[host]:1", "//user@host:1", "//host:1/path"}) {
    EXPECT_THROW(parse_address(bad), UriError) << bad;
  }
}

TEST(TcpAddress, IsWrittenAsAUriHasIt) {
  EXPECT_EQ(to_uri("10.0.0.7", 7700), "tcp://10.0.0.7:7700");
  EXPECT_EQ(to_uri("::1", 7700), "tcp://[::1]:7700");
  EXPECT_EQ(to_uri("fe80::1%eth0", 1), "tcp://[fe80::1%25eth0]:1");
}

TEST(TcpAddress, NoHostIsTheLoopback) {
  const auto endpoints = resolve({"", 7700});
  ASSERT_EQ(endpoints.size(), 1u);
  EXPECT_EQ(to_uri(endpoints[0]), "tcp://127.0.0.1:7700");
  EXPECT_FALSE(is_wildcard(endpoints[0]));
}

TEST(TcpAddress, EveryAddressIsAskedForByAStar) {
  EXPECT_TRUE(is_wildcard(resolve({"*", 1}).at(0)));
  EXPECT_TRUE(is_wildcard(resolve({"0.0.0.0", 1}).at(0)));
}

TEST(TcpAddress, TheLoopbackIsKnownInEveryForm) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(resolve({host, 1}).at(0))) << host;
  }
  for (const char* host : {"10.0.0.1", "128.0.0.1", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(is_loopback(resolve({host, 1}).at(0))) << host;
  }
}

TEST(TcpAddress, AnUnknownNameIsNotFound) { EXPECT_THROW(resolve({"no-such-host.invalid", 1}), NotFoundError); }

}  // namespace
}  // namespace crossdock::transport::tcp
