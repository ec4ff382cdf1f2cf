#include "session/flight/location.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/session/transports.h"

namespace crossdock::session {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kElsewhere = "192.0.2.7";  // RFC 5737: no machine has it

class Locations : public ::testing::Test {
 protected:
  std::string objection(const std::string& location, const LocationRules& rules) const {
    return why_not(location, rules, *transports_);
  }
  const std::shared_ptr<const transport::TransportRegistry> transports_ = make_transports();
};

TEST_F(Locations, AreSortedByWhatTheyCost) {
  EXPECT_THAT(
      by_cost({"tcp+tls://h:1", "arrow-flight-reuse-connection://?", "tcp://h:2", "x:1", "fabric://h:3", "ucx://h:4",
               "shm:/a?want_data=1", "tcp://h:5"}),
      ElementsAre("shm:/a?want_data=1", "ucx://h:4", "fabric://h:3", "tcp://h:2", "tcp://h:5", "tcp+tls://h:1", "x:1"));
}

TEST_F(Locations, HaveHosts) {
  EXPECT_EQ(host_in("//10.0.0.7:1"), "10.0.0.7");
  EXPECT_EQ(host_in("//[::1]:1"), "::1");
  EXPECT_EQ(host_in("//name"), "name");
  EXPECT_EQ(host_in("//name/path"), "name");
  EXPECT_EQ(host_in("/run/x"), "");
  EXPECT_EQ(host_in(""), "");
  EXPECT_EQ(host_in("//[::1"), "::1");
}

TEST_F(Locations, OfAFlightServerHaveAHostAndAPort) {
  EXPECT_EQ(host_and_port("//name:815/"), "name:815");
  EXPECT_EQ(host_and_port("//[::1]:815"), "[::1]:815");
  for (const char* wrong : {"", "//", "//name", "//:815", "name:815", "//name:65536", "//name:8 15", "//a/b:815",
                            "//::1:815", "//[::1]", "//[name]:815", "//[::1:815", "//user@name:815"}) {
    EXPECT_EQ(host_and_port(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(host_and_port("//" + std::string(255, 'x') + ":815")->size(), 259U);
  EXPECT_EQ(host_and_port("//" + std::string(258, 'x') + ":815"), std::nullopt);
}

TEST_F(Locations, AtOtherHostsAreFollowedIfTheClientAllowsThem) {
  EXPECT_THAT(objection("tcp://192.0.2.7:1", {kElsewhere}), IsEmpty());
  EXPECT_THAT(objection("tcp://192.0.2.8:1", {kElsewhere}), HasSubstr("at another host than 192.0.2.7"));
  EXPECT_THAT(objection("tcp://192.0.2.8:1", {kElsewhere, false, true}), IsEmpty());
  EXPECT_THAT(objection("tcp://127.0.0.1:1", {kElsewhere}), HasSubstr("another host"));
}

TEST_F(Locations, OfOtherMachinesAreEncryptedAsTheServerIs) {
  for (const char* plain : {"tcp://192.0.2.7:1", "ucx://192.0.2.7:1", "fabric://192.0.2.7:1"}) {
    EXPECT_THAT(objection(plain, {kElsewhere, true}), HasSubstr("it isn't encrypted, as the Flight server is"))
        << plain;
    EXPECT_THAT(objection(plain, {kElsewhere, true, true}), IsEmpty()) << plain;
  }
  EXPECT_THAT(objection("tcp+tls://192.0.2.7:1", {kElsewhere, true}), IsEmpty());
  EXPECT_THAT(objection("tcp://127.0.0.1:1", {"127.0.0.1", true}), IsEmpty()) << "nobody else reads it there";
  EXPECT_THAT(objection("shm:/x?want_data=1", {kElsewhere, true}), IsEmpty());
}

TEST_F(Locations, OfSharedMemoryNeedTheTagByWhichTheServerIsKnown) {
  EXPECT_THAT(objection("shm:/x", {"127.0.0.1"}), HasSubstr("no want_data"));
}

TEST_F(Locations, ThatNobodyKnowsSayWhy) {
  EXPECT_THAT(objection("telegraph://192.0.2.7:1", {kElsewhere}), HasSubstr("telegraph"));
  EXPECT_THAT(objection("no uri", {kElsewhere}), HasSubstr("no uri"));
}

}  // namespace
}  // namespace crossdock::session
