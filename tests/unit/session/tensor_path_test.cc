#include "session/tensor_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "session/tensor_format.h"

namespace crossdock::session {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Path = std::vector<std::string>;

TEST(TensorPath, ComesBackWhateverTextItsKeysAre) {
  const Path path{"layer.0", "", "[\"a\", 1]", "quote \" and \\", "line\nend\x01", "h\xC3\xA9", "\xF0\x9F\x9A\x9A"};
  EXPECT_EQ(read_path(write_path(path), "it"), path);
}

TEST(TensorPath, IsReadAsOthersWriteIt) {
  EXPECT_THAT(read_path(R"( [ "a\/b" ,"\u00e9\ud83d\ude9a\b\f\n\r\t\"\\" ] )", "it"),
              ElementsAre("a/b", "\xC3\xA9\xF0\x9F\x9A\x9A\b\f\n\r\t\"\\"));
}

TEST(TensorPath, OtherJsonIsRefused) {
  for (const char* const json : {"", "[", "[]", "{}", "\"a\"", "[1]", "[null]", "[\"a\",]", "[\"a\" \"b\"]",
                                 "[\"a\"] x", "[\"a", "[\"\\x\"]", "[\"\\u12\"]", "[\"\\ud800\"]",
                                 "[\"\\ud800\\u0041\"]", "[\"\\udc00\"]", "[\"\xFF\"]", "[\"a\nb\"]", "[[\"a\"]]"}) {
    EXPECT_THROW(read_path(json, "it"), InvalidDataError) << json;
  }
}

TEST(TensorPath, LongOnesAreRefused) {
  const Path longest(kMaxTensorPath, "k");
  EXPECT_EQ(read_path(write_path(longest), "it"), longest);
  EXPECT_THROW(write_path(Path(kMaxTensorPath + 1, "k")), InvalidArgumentError);
  std::string json = "[\"k\"";
  for (std::size_t i = 0; i < kMaxTensorPath; ++i) json += ", \"k\"";
  EXPECT_THROW(read_path(json + "]", "it"), InvalidDataError);
  EXPECT_THROW(write_path({}), InvalidArgumentError);
  EXPECT_THROW(write_path(Path{"\xFF"}), InvalidArgumentError);
}

std::string refused(const std::vector<Path>& paths) {
  std::vector<std::span<const std::string>> all(paths.begin(), paths.end());
  try {
    check_paths(&all);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(TensorPath, OfSeveralNoneIsAnothersBeginning) {
  EXPECT_EQ(refused({{"b"}, {"a", "x"}, {"a", "y"}, {"ab"}, {"a", "x2", "z"}}), "");
  EXPECT_THAT(refused({{"a", "x"}, {"b"}, {"a", "x"}}), HasSubstr("two tensors have the path [\"a\", \"x\"]"));
  EXPECT_THAT(refused({{"a"}, {"a!"}, {"a", "x", "y"}}), HasSubstr("the beginning"));
}

TEST(TensorPath, ShapesAreRead) {
  std::vector<std::int64_t> shape;
  EXPECT_TRUE(read_shape("[3, 0,7]", &shape));
  EXPECT_THAT(shape, ElementsAre(3, 0, 7));
  shape.clear();
  EXPECT_TRUE(read_shape("[]", &shape));
  for (const char* const json : {"[1,", "[a]", "[1.5]", "[99999999999999999999]", "1", "[1] 2"}) {
    shape.clear();
    EXPECT_FALSE(read_shape(json, &shape)) << json;
  }
  std::string many = "[1";
  for (int i = 0; i < 100; ++i) many += ", 1";
  EXPECT_FALSE(read_shape(many + "]", &shape));
}

}  // namespace
}  // namespace crossdock::session
