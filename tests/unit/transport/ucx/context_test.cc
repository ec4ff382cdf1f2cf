#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>

#include "crossdock/core/error.h"
#include "support.h"

namespace crossdock::transport::ucx_test {
namespace {

using ::testing::HasSubstr;

SocketAddress at(const char* host) { return resolve("ucx", {host, 1}).at(0); }

TEST(UcxContext, AddressesOfOneInterfaceShareOne) {
  UcxContexts contexts(UcxOptions{});
  const auto context = contexts.for_local(at("127.0.0.1"));
  EXPECT_EQ(contexts.for_local(at("127.0.0.9")), context);
  EXPECT_EQ(contexts.for_remote(at("127.0.0.1")), context);
  EXPECT_NE(contexts.for_local(at("0.0.0.0")), context) << "all interfaces";
  EXPECT_FALSE(context->remote_reads());
}

TEST(UcxContext, OptionsReachUcx) {
  Ends ends(kLimits, {.transports = "tcp",
                      .net_devices = "lo",
                      .keepalive = std::chrono::seconds(1),
                      .user_timeout = std::chrono::milliseconds(5000)});
  ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
  EXPECT_EQ(as_text(ends.receive(ends.server).bytes), "x");
}

TEST(UcxContext, TransportsThatDontExistAreAnError) {
  UcxContexts contexts({.transports = "no-such-transport"});
  try {
    contexts.for_local(at("127.0.0.1"));
    FAIL() << "it was opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("opening UCX for the devices lo failed: "));
  }
}

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(UcxContext, NeitherDescriptorsNorThreadsAreLeftBehind) {
  const auto once = [] {
    Ends ends;
    EXPECT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
    ends.receive(ends.server);
  };
  once();  // what UCX keeps for the process
  const std::ptrdiff_t descriptors = entries("/proc/self/fd");
  const std::ptrdiff_t threads = entries("/proc/self/task");
  for (int i = 0; i < 5; ++i) once();
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries("/proc/self/task"), threads);
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
