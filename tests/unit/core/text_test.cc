#include "core/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace crossdock {
namespace {

TEST(Text, NamesTheFirstOfMany) {
  EXPECT_EQ(first_names(std::vector<std::string>{}), "");
  EXPECT_EQ(first_names(std::vector<std::string>{"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(first_names(std::vector<std::string>{"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

TEST(Text, KnowsUtf8) {
  for (const std::string_view good :
       {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80",
        "\xF4\x8F\xBF\xBF", "h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x9A\x9A"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
}

TEST(Text, KnowsWhatIsNotUtf8) {
  for (const std::string_view bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2z", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF0\x9F\x9A", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(is_utf8(bad)) << shown(bad);
  }
}

TEST(Text, CutsBetweenCharacters) {
  EXPECT_EQ(bounded_utf8("a\xE2\x82\xAC", 4), "a\xE2\x82\xAC");
  EXPECT_EQ(bounded_utf8("a\xE2\x82\xAC", 3), "a");
  EXPECT_EQ(bounded_utf8("abc", 0), "");
}

TEST(Text, BoundsForeignTextAndSaysHowLongItWas) {
  const std::string long_text(1 << 20, 'x');
  const std::string start(kMostShown, 'x');
  EXPECT_EQ(excerpt(long_text), start + "... (1048576 bytes)");
  EXPECT_EQ(shown(long_text), "'" + start + "'... (1048576 bytes)");
  EXPECT_EQ(shortened(long_text).size(), kMostErrorText + sizeof("... (1048576 bytes)") - 1);
  EXPECT_EQ(excerpt("a\nb"), "a\\nb");
  EXPECT_EQ(shortened("a\nb"), "a\nb") << "its lines stay lines";
  for (const auto& cut : {excerpt("a\xE2\x82\xAC", 3), shortened("a\xE2\x82\xAC", 3)}) EXPECT_EQ(cut, "a... (4 bytes)");
  EXPECT_EQ(shown("a\xE2\x82\xAC", 4), "'a\xE2\x82\xAC'");
  EXPECT_EQ(shortened("\xFF\xFF\xFF", 2), "\xFF\xFF... (3 bytes)");
}

TEST(Text, ReplacesWhatIsNotUtf8) { EXPECT_EQ(bounded_utf8("a\xFF\xC3z\xE2\x82", 10), "a??z??"); }

TEST(Text, EncodesAllButWordsAndWhatIsPlain) {
  EXPECT_EQ(percent_encoded("aZ09 /%\xFF\n~", "/"), "aZ09%20/%25%FF%0A%7E");
}

TEST(Text, ShowsControlsAndGarbageEscaped) {
  EXPECT_EQ(shown("a\n\x1B[0m'\\\xFF\xC3\xA9"), "'a\\n\\x1b[0m\\x27\\x5c\\xff\xC3\xA9'");
  EXPECT_EQ(printable("a\r\n\tb"), "a\\r\\n\\tb");
  EXPECT_EQ(shown("abcdef", 3), "'abc'... (6 bytes)");
  EXPECT_EQ(printable("\xC2\x9B[31m \xC2\x80\xC2\x9F\xC2\xA0"), "\\u009b[31m \\u0080\\u009f\xC2\xA0");
  EXPECT_EQ(printable("\xE2\x80\xA8\xE2\x80\xAE\xE2\x80\xAF"), "\\u2028\\u202e\xE2\x80\xAF");
  EXPECT_EQ(printable("\xF3\xA0\x80\x81\xF0\x9F\x9A\x9A"), "\\U000e0001\xF0\x9F\x9A\x9A");
  EXPECT_EQ(shown("\xC2\x85"), "'\\u0085'");
  EXPECT_EQ(printable("it's\\\n\x7F\xFF\xC3\xA9"), "it's\\\\n\\x7f\\xff\xC3\xA9");
}

}  // namespace
}  // namespace crossdock
