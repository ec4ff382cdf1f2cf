#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/array/schema.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::dictionary_of;
using test::field;
using ::testing::HasSubstr;

TEST(ExportSchema, EveryTypeComesBackEqual) {
  std::vector<Field> fields = test::every_type();
  fields[3].metadata = {{"ARROW:extension:name", "geo"}, {"twice", "1"}, {"twice", std::string("\0\xff", 2)}, {"", ""}};
  fields[4].nullable = false;
  const Schema schema(fields, {{"writer", "test"}});
  ArrowSchema exported;
  export_schema(schema, &exported);
  EXPECT_STREQ(exported.format, "+s");
  EXPECT_EQ(exported.n_children, static_cast<std::int64_t>(fields.size()));
  const std::shared_ptr<const Schema> again = import_schema(exported);
  ASSERT_NE(exported.release, nullptr) << "importing must not release";
  exported.release(&exported);
  EXPECT_EQ(exported.release, nullptr);
  EXPECT_EQ(*again, schema) << again->to_string();
}

TEST(ExportSchema, WritesTheFormatsOfTheSpecification) {
  const auto format = [](const Field& of) {
    ArrowSchema exported;
    export_field(of, &exported);
    std::string text = exported.format;
    exported.release(&exported);
    return text;
  };
  std::vector<std::string> formats;
  for (const Field& of : test::every_type()) formats.push_back(format(of));
  EXPECT_THAT(formats,
              ::testing::ElementsAre("n", "b", "c", "s", "i", "l", "C", "S", "I", "L", "e", "f", "g", "d:9,2,32",
                                     "d:18,0,64", "d:38,-3", "d:76,10,256", "tdD", "tdm", "tts", "ttm", "ttu", "ttn",
                                     "tss:", "tss:Europe/Zurich", "tDs", "tsm:", "tsm:Europe/Zurich", "tDm",
                                     "tsu:", "tsu:Europe/Zurich", "tDu", "tsn:", "tsn:Europe/Zurich", "tDn", "u", "U",
                                     "z", "Z", "w:3", "w:0", "+l", "+L", "+w:3", "+w:0", "+w:2", "+s", "+s", "+m", "c",
                                     "+l", "l", "C", "tiM", "tiD", "tin", "vu", "+s", "+vl", "+vL", "+us:5,0,127",
                                     "+ud:3,1", "+ud:0", "+r", "+r", "+r", "+vl", "+r", "c", "s"));
}

TEST(ExportSchema, SetsTheFlags) {
  const Schema schema(test::every_type());
  ArrowSchema exported;
  export_schema(schema, &exported);
  for (std::int64_t i = 0; i < exported.n_children; ++i) {
    const ArrowSchema& child = *exported.children[i];
    const bool map = std::string(child.name) == "map";
    const bool words = std::string(child.name) == "words";
    EXPECT_EQ((child.flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0, map) << child.name;
    EXPECT_EQ((child.flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0, words) << child.name;
    EXPECT_TRUE(child.flags & ARROW_FLAG_NULLABLE) << child.name;
    if (words) {
      ASSERT_NE(child.dictionary, nullptr);
      EXPECT_STREQ(child.dictionary->format, "u");
    }
  }
  exported.release(&exported);
}

TEST(ExportSchema, AChildMovedOutOutlivesItsParent) {
  const Schema schema({field("s", TypeId::kStruct, {field("inner", TypeId::kUtf8)}),
                       dictionary_of("d", TypeId::kInt8, field("", TypeId::kLargeUtf8))});
  ArrowSchema exported;
  export_schema(schema, &exported);
  ArrowSchema structure = *exported.children[0];
  exported.children[0]->release = nullptr;
  ArrowSchema dictionary = *exported.children[1]->dictionary;
  exported.children[1]->dictionary->release = nullptr;
  exported.release(&exported);
  EXPECT_STREQ(structure.name, "s");
  EXPECT_STREQ(structure.children[0]->name, "inner");
  EXPECT_STREQ(dictionary.format, "U");
  ArrowSchema inner = *structure.children[0];
  structure.children[0]->release = nullptr;
  structure.release(&structure);
  EXPECT_STREQ(inner.format, "u");
  inner.release(&inner);
  dictionary.release(&dictionary);
  EXPECT_EQ(dictionary.release, nullptr);
}

TEST(ExportSchema, RefusesNulCharactersAndLeavesOutReleased) {
  const Schema schema({field("good", TypeId::kInt8), field(std::string("a\0b", 3), TypeId::kInt8)});
  ArrowSchema exported;
  EXPECT_THAT(message_of<InvalidDataError>([&] { export_schema(schema, &exported); }),
              HasSubstr("field \"a\\x00b\": its name holds a NUL"));
  EXPECT_EQ(exported.release, nullptr);
  Field zone = field("t", TypeId::kTimestamp);
  zone.type.timezone = std::string("UTC\0", 4);
  EXPECT_THAT(message_of<InvalidDataError>([&] { export_field(zone, &exported); }), HasSubstr("timezone"));
  EXPECT_EQ(exported.release, nullptr);
}

}  // namespace
}  // namespace crossdock::array
