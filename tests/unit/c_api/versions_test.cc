// Structs of callers that were built against an earlier version, by a struct of which there are two versions.
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "c_api/arguments.h"
#include "crossdock/core/error.h"

namespace crossdock::c_api {
namespace {

using ::testing::Each;

struct First {
  std::size_t size;
  std::uint64_t old;
};
struct Second {
  std::size_t size;
  std::uint64_t old;
  std::uint64_t later;
};
constexpr std::size_t kFirst = sizeof(First);

/// A struct of the first version, and what lies behind it in the caller's memory, which is nobody's to touch.
struct Caller {
  First first{.size = sizeof(First), .old = 7};
  std::array<unsigned char, 16> behind;

  Caller() { behind.fill(0xcd); }
  Second* as_second() { return reinterpret_cast<Second*>(&first); }
  void expect_untouched() const { EXPECT_THAT(behind, Each(0xcd)); }
};

TEST(CVersions, OptionsOfTheFirstVersionHaveTheDefaultsOfWhatCameLater) {
  Caller caller;
  const auto options = options_of(caller.as_second(), kFirst, "struct");
  EXPECT_EQ(options.size, sizeof(Second));
  EXPECT_EQ(options.old, 7U);
  EXPECT_EQ(options.later, 0U) << "what lies behind the caller's struct is none of its members";
  caller.expect_untouched();

  caller.first.size = kFirst - 1;
  EXPECT_THROW(options_of(caller.as_second(), kFirst, "struct"), InvalidArgumentError);
}

TEST(CVersions, OptionsOfTheSameVersionAreTakenWhole) {
  const Second given{.size = sizeof(Second), .old = 1, .later = 2};
  const auto options = options_of(&given, kFirst, "struct");
  EXPECT_EQ(options.old, 1U);
  EXPECT_EQ(options.later, 2U);
}

TEST(CVersions, AResultForTheFirstVersionEndsWithItsStruct) {
  Caller caller;
  clear_result(caller.as_second(), kFirst, "struct");
  EXPECT_EQ(caller.first.size, sizeof(First));
  EXPECT_EQ(caller.first.old, 0U);
  caller.expect_untouched();
  write_result(caller.as_second(), Second{.size = 0, .old = 1, .later = 2});
  EXPECT_EQ(caller.first.size, sizeof(First)) << "the caller's own";
  EXPECT_EQ(caller.first.old, 1U);
  caller.expect_untouched();
}

TEST(CVersions, AnArrayOfTheFirstVersionIsReadAtItsOwnDistances) {
  const std::vector<First> given = {{sizeof(First), 1}, {sizeof(First), 2}, {sizeof(First), 3}};
  const auto read = structs_of(reinterpret_cast<const Second*>(given.data()), given.size(), kFirst, "array", "struct");
  ASSERT_EQ(read.size(), 3U);
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].old, i + 1);
    EXPECT_EQ(read[i].later, 0U);
  }
}

}  // namespace
}  // namespace crossdock::c_api
