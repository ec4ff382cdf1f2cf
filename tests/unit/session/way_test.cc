#include "session/way.h"

#include <gmock/gmock.h>

#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

using ::testing::HasSubstr;
using transport::Way;
using transport::Ways;

TEST(Way, IsChosenInThisOrder) {
  constexpr Ways kAll = Way::kMap | Way::kRead | Way::kMessage;
  constexpr Ways kReadOrMessage = Way::kRead | Way::kMessage;
  constexpr Ways kMapOrMessage = Way::kMap | Way::kMessage;
  struct Row {
    WayQuestion question;
    Way way;
    const char* why;
  };
  const Row rows[] = {
      {{.agreed = kAll, .of_regions = kAll}, Way::kMap, "maps"},
      {{.agreed = kAll, .of_regions = kAll, .one_sided = true, .wants_parts = true}, Way::kMap, "maps"},
      {{.agreed = kAll, .of_regions = kReadOrMessage}, Way::kMessage, "costs less"},
      {{.agreed = kAll, .of_regions = kReadOrMessage, .one_sided = true}, Way::kRead, "without the server's calls"},
      {{.agreed = kAll, .of_regions = kReadOrMessage, .wants_parts = true}, Way::kRead, "only those"},
      {{.agreed = kReadOrMessage, .of_regions = kReadOrMessage, .prefers_reads = true}, Way::kRead, "by the URI"},
      {{.agreed = kReadOrMessage, .of_regions = Way::kMessage, .prefers_reads = true}, Way::kMessage, "can't take"},
      {{.agreed = Way::kRead, .of_regions = kAll}, Way::kRead, "reads alone"},
      {{.agreed = kAll, .of_regions = Way::kMessage, .one_sided = true}, Way::kMessage, "can't take the memory"},
      {{.agreed = Way::kMessage, .of_regions = kAll, .one_sided = true}, Way::kMessage, "messages alone"},
      {{.agreed = kReadOrMessage, .of_regions = Way::kMessage, .on_device = true},
       Way::kMessage,
       "of the source's device"},
      {{.agreed = kAll, .of_regions = Way::kMap | Way::kMessage, .on_device = true}, Way::kMap, "maps"},
      {{.agreed = kAll, .live = true}, Way::kMap, "maps"},
      {{.agreed = kMapOrMessage, .live = true}, Way::kMap, "maps"},
      {{.agreed = kReadOrMessage, .live = true, .one_sided = true}, Way::kMessage, "isn't registered"},
      {{.agreed = Way::kMessage, .live = true}, Way::kMessage, "agreed on messages alone"},
      {{.agreed = Way::kMessage, .of_regions = kAll, .tcp = true}, Way::kMessage, "tcp has messages alone"},
      {{.agreed = Way::kMessage, .live = true, .tcp = true}, Way::kMessage, "tcp has messages alone"},
  };
  for (const Row& row : rows) {
    const WayAnswer answer = choose_way(row.question);
    EXPECT_EQ(answer.way, row.way) << row.why;
    EXPECT_THAT(answer.why, HasSubstr(row.why));
  }
}

TEST(Way, ThatCantBeIsAnErrorThatNamesBothSets) {
  const auto refusal = [](const WayQuestion& question) -> std::string {
    try {
      choose_way(question);
    } catch (const UnsupportedError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal({.agreed = Way::kMap, .of_regions = Way::kMessage}),
              HasSubstr("the consumer accepts map, and the server can send these bodies by message only"));
  EXPECT_THAT(refusal({.agreed = Way::kRead, .live = true}), HasSubstr("live stream"));
}

TEST(Ways, AreASet) {
  Ways none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(transport::to_text(none), "none");
  EXPECT_EQ(transport::to_text(Way::kMessage | Way::kMap), "map, message");
  EXPECT_EQ(Ways::from_bits(0xFFFFFFFF), Way::kMap | Way::kRead | Way::kMessage) << "unknown bits are dropped";
  EXPECT_FALSE(Ways(Way::kMap).has(Way::kRead));
}

}  // namespace
}  // namespace crossdock::session
