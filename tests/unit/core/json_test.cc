#include "core/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace crossdock {
namespace {

using ::testing::ElementsAre;

std::string read_string(std::string_view json) {
  JsonReader reader(json);
  std::string text;
  return reader.string(&text) && reader.at_end() ? text : "(none)";
}

TEST(Json, StringsStandForTheirTexts) {
  EXPECT_EQ(read_string(R"( "a\"\\\/\b\f\n\r\t" )"), "a\"\\/\b\f\n\r\t");
  EXPECT_EQ(read_string(R"("\u0041\u00e9\u20ac\ud83d\ude9a")"), "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x9A\x9A");
  EXPECT_EQ(read_string(R"("")"), "");
  for (const char* const other : {R"(")", R"("a)", R"("\)", R"("\x")", R"("\u12)", R"("\u12g4")", R"("\ud83d")",
                                  R"("\ud83dxx")", R"("\ud83dA")", "\"\n\"", "a"}) {
    EXPECT_EQ(read_string(other), "(none)") << other;
  }
}

TEST(Json, WhatIsWrittenIsReadBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  std::string json;
  append_json(all, &json);
  EXPECT_EQ(read_string(json), all);
}

TEST(Json, ListsOfWholeNumbers) {
  std::vector<std::int64_t> numbers;
  EXPECT_TRUE(JsonReader(" [ 1 ,-2, 3] ").integers(&numbers, 3));
  EXPECT_THAT(numbers, ElementsAre(1, -2, 3));
  EXPECT_EQ(json_of(numbers), "[1,-2,3]");
  EXPECT_EQ(json_of({}), "[]");
  numbers.clear();
  EXPECT_FALSE(JsonReader("[1, 2, 3]").integers(&numbers, 2));
  for (const char* const other : {"[", "[1", "[1,", "[1,]", "[1 2]", "1", "[a]", "[9223372036854775808]"}) {
    EXPECT_FALSE(JsonReader(other).integers(&numbers, 100)) << other;
  }
}

TEST(Json, ObjectsHaveMembers) {
  std::string names;
  std::int64_t sum = 0;
  JsonReader reader(R"( { "a" : 1, "b":2 } )");
  EXPECT_TRUE(reader.object([&](const std::string& name) {
    std::int64_t value = 0;
    names += name;
    const bool good = reader.integer(&value);
    sum += value;
    return good;
  }));
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(names, "ab");
  EXPECT_EQ(sum, 3);
  const auto none = [](const std::string&) { return false; };
  EXPECT_TRUE(JsonReader("{}").object(none));
  for (const char* const other : {"", "{", "{1:2}", "{\"a\"}", "{\"a\":1}", "[]"}) {
    EXPECT_FALSE(JsonReader(other).object(none)) << other;
  }
}

TEST(Json, ValuesAreSkipped) {
  for (const char* const value :
       {"1.5e3", "null", R"("a\"b")", "[]", R"(["a", null, 3])", "[[1], {}]", R"({"a": [1, {"b": "}"}], "c": true})"}) {
    JsonReader reader(value);
    EXPECT_TRUE(reader.skip() && reader.at_end()) << value;
  }
  for (const char* const other : {"", ",", "[", "[[1]", R"("a)", R"({"a"})", "{1:2}"}) {
    EXPECT_FALSE(JsonReader(other).skip()) << other;
  }
}

TEST(Json, SkippingHasALimitOfDepth) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(JsonReader(nested(JsonReader::kMostDepth)).skip());
  EXPECT_FALSE(JsonReader(nested(JsonReader::kMostDepth + 1)).skip());
  EXPECT_FALSE(JsonReader(std::string(1 << 20, '[')).skip());
}

}  // namespace
}  // namespace crossdock
