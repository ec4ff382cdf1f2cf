#include "transport/internal/socket_address.h"

#include <gtest/gtest.h>

#include <string>

#include "crossdock/core/error.h"

namespace crossdock::transport {
namespace {

TEST(SocketAddresses, IsTakenApart) {
  const auto expect = [](const char* address, const char* host, std::uint16_t port) {
    const HostPort got = parse_address("tcp", address);
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

TEST(SocketAddresses, BadOnesAreNamed) {
  for (const char* bad : {"host:1", "/host:1", "//host:65536", "//host:-1", "//host:x", "//host:1x", "//host:", "//::1",
                          "//::1:7700", "//[::1", "//[::1]7700", "//[host]:1", "//user@host:1", "//host:1/path"}) {
    EXPECT_THROW(parse_address("tcp", bad), UriError) << bad;
  }
  EXPECT_EQ(parse_address("tcp", "//" + std::string(255, 'h')).host.size(), 255U);
  EXPECT_THROW(parse_address("tcp", "//" + std::string(256, 'h')), UriError);
}

TEST(SocketAddresses, APortAloneIsTakenForNoHost) {
  const auto error_of = [](const char* scheme, const char* address) -> std::string {
    try {
      parse_address(scheme, address);
    } catch (const UriError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(error_of("tcp", "7700"),
            "bad address 'tcp:7700': two slashes must follow the scheme; did you mean tcp://localhost:7700?");
  EXPECT_EQ(error_of("ucx", "//7700"),
            "bad address 'ucx://7700': 7700 is a host here, not a port; did you mean ucx://localhost:7700?");
  EXPECT_EQ(error_of("tcp+tls", "//7700/"),
            "bad address 'tcp+tls://7700/': 7700 is a host here, not a port; did you mean tcp+tls://localhost:7700?");
  EXPECT_EQ(error_of("tcp", "//token@host:1"),
            "bad address 'tcp://...@host:1': it has a user, but a token must not be in a URI; write tcp://host:port, "
            "with an IPv6 address in brackets");
  EXPECT_EQ(error_of("tcp", "token@host:1"),
            "bad address 'tcp:...@host:1': two slashes must follow the scheme; write tcp://host:port, with an IPv6 "
            "address in brackets");
  EXPECT_EQ(error_of("tcp", "host:7700"),
            "bad address 'tcp:host:7700': two slashes must follow the scheme; write tcp://host:port, with an IPv6 "
            "address in brackets");
  for (const char* address : {"//0", "//65536", "//2130706433", "//7700:1", "//10.0.0.7"}) {
    EXPECT_EQ(error_of("tcp", address), "none") << address;
  }
}

TEST(SocketAddresses, IsWrittenAsAUriHasIt) {
  EXPECT_EQ(to_uri("tcp", "10.0.0.7", 7700), "tcp://10.0.0.7:7700");
  EXPECT_EQ(to_uri("tcp", "::1", 7700), "tcp://[::1]:7700");
  EXPECT_EQ(to_uri("tcp", "fe80::1%eth0", 1), "tcp://[fe80::1%25eth0]:1");
}

TEST(SocketAddresses, NoHostIsTheLoopback) {
  const auto endpoints = resolve("tcp", {"", 7700});
  ASSERT_EQ(endpoints.size(), 1u);
  EXPECT_EQ(to_uri("tcp", endpoints[0]), "tcp://127.0.0.1:7700");
  EXPECT_FALSE(is_wildcard(endpoints[0]));
}

TEST(SocketAddresses, EveryAddressIsAskedForByAStar) {
  EXPECT_TRUE(is_wildcard(resolve("tcp", {"*", 1}).at(0)));
  EXPECT_TRUE(is_wildcard(resolve("tcp", {"0.0.0.0", 1}).at(0)));
}

TEST(SocketAddresses, TheLoopbackIsKnownInEveryForm) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(resolve("tcp", {host, 1}).at(0))) << host;
  }
  for (const char* host : {"10.0.0.1", "128.0.0.1", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(is_loopback(resolve("tcp", {host, 1}).at(0))) << host;
  }
}

TEST(SocketAddresses, AnUnknownNameIsAConnectionError) {
  EXPECT_THROW(resolve("tcp", {"no-such-host.invalid", 1}), ConnectionError);
}

}  // namespace
}  // namespace crossdock::transport
