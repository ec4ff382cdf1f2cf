#include "dissociated/uri.h"

#include <random>

#include "crossdock/core/error.h"
#include "support.h"
#include "support/format_uri.h"

namespace crossdock::dissociated {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;

// "URI Specification".

TEST(Uri, ReadsAWholeOne) {
  const Uri uri =
      parse_uri("shm:/run/user/0/x.sock?want_data=1&free_data=0x2&remote_handle=AQID&stream=data&token=a%26b");
  EXPECT_EQ(uri.scheme, "shm");
  EXPECT_EQ(uri.address, "/run/user/0/x.sock");
  EXPECT_THAT(uri.want_data, Optional(1));
  EXPECT_THAT(uri.free_data, Optional(2));
  EXPECT_EQ(uri.remote_handle, bytes({1, 2, 3}));
  EXPECT_EQ(uri.role, ChannelRole::kData);
  EXPECT_THAT(uri.others, ElementsAre(Pair("token", "a&b")));
}

TEST(Uri, ReadsAnAddressAlone) {
  const Uri uri = parse_uri("shm:/x.sock");
  EXPECT_EQ(uri.address, "/x.sock");
  EXPECT_FALSE(uri.want_data);
  EXPECT_FALSE(uri.free_data);
  EXPECT_THAT(uri.remote_handle, IsEmpty());
  EXPECT_EQ(uri.role, ChannelRole::kBoth);
  EXPECT_THAT(uri.others, IsEmpty());
  EXPECT_EQ(parse_uri("shm:").address, "");
  EXPECT_EQ(parse_uri("shm:/x.sock?"), uri);
}

TEST(Uri, KeepsAnAuthorityInTheAddress) {
  EXPECT_EQ(parse_uri("tcp://[::1]:4711?want_data=9").address, "//[::1]:4711");
  EXPECT_EQ(parse_uri("fabric://host:12/a:b").address, "//host:12/a:b");
}

TEST(Uri, LowersTheScheme) { EXPECT_EQ(parse_uri("Shm+X-1.2:/x").scheme, "shm+x-1.2"); }

TEST(Uri, DecodesTheAddress) {
  EXPECT_EQ(parse_uri("shm:/a%20b%3f%25%C3%a9").address, "/a b?%\xC3\xA9");
  EXPECT_EQ(parse_uri("shm:/h\xC3\xA9").address, "/h\xC3\xA9");
}

TEST(Uri, ReadsBothRadices) {
  EXPECT_THAT(parse_uri("shm:/x?want_data=18446744073709551615").want_data, Optional(UINT64_MAX));
  EXPECT_THAT(parse_uri("shm:/x?want_data=0xFFFFffffFFFFffff").want_data, Optional(UINT64_MAX));
  EXPECT_THAT(parse_uri("shm:/x?want_data=0XaB").want_data, Optional(0xAB));
  EXPECT_THAT(parse_uri("shm:/x?want_data=010").want_data, Optional(10));
  EXPECT_THAT(parse_uri("shm:/x?want_data=%31%32").want_data, Optional(12));
}

TEST(Uri, ReadsEitherBase64AlphabetPaddedOrNot) {
  const auto handle = [](std::string_view text) {
    return parse_uri("ucx:x?remote_handle=" + std::string(text)).remote_handle;
  };
  EXPECT_EQ(handle("-_8"), bytes({0xFB, 0xFF}));
  EXPECT_EQ(handle("-_8="), bytes({0xFB, 0xFF}));
  EXPECT_EQ(handle("+/8="), bytes({0xFB, 0xFF}));  // '+' is a plus, never a space
  EXPECT_EQ(handle("%2B%2F8%3D"), bytes({0xFB, 0xFF}));
  EXPECT_EQ(handle("AA=="), bytes({0}));
  EXPECT_EQ(handle("AA"), bytes({0}));
  EXPECT_EQ(handle("AAAA"), bytes({0, 0, 0}));
}

TEST(Uri, KeepsUnknownParametersInOrder) {
  EXPECT_THAT(parse_uri("shm:/x?b=1+1&a&b=&c==").others,
              ElementsAre(Pair("b", "1+1"), Pair("a", ""), Pair("b", ""), Pair("c", "=")));
}

TEST(Uri, ReadsWhoseServerItIs) {
  EXPECT_TRUE(parse_uri("ucx://h:1?want_data=1&crossdock=1").crossdock);
  EXPECT_FALSE(parse_uri("ucx://h:1?want_data=1").crossdock);
}

TEST(Uri, ReadsTheStreamsRole) {
  EXPECT_EQ(parse_uri("shm:/x?stream=metadata").role, ChannelRole::kMetadata);
  EXPECT_EQ(parse_uri("shm:/x?stream=data").role, ChannelRole::kData);
}

struct BadUri {
  std::string text;
  std::size_t character;  // One behind the last: the error names the end.
  std::string words;
};
void PrintTo(const BadUri& bad, std::ostream* out) { *out << bad.text; }

class BadUris : public ::testing::TestWithParam<BadUri> {};

TEST_P(BadUris, AreRefusedWithTheTextAndThePlace) {
  try {
    parse_uri(GetParam().text);
    FAIL() << "taken";
  } catch (const UriError& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith("bad URI '"));
    const bool behind = GetParam().character > GetParam().text.size();
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr(behind ? ", at its end: "
                                            : ", at character " + std::to_string(GetParam().character) + ": "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr(GetParam().words));
    for (const char* c = error.what(); *c != '\0'; ++c) EXPECT_GE(static_cast<unsigned char>(*c), 0x20);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Uri, BadUris,
    ::testing::Values(
        BadUri{"shm:new comer", 8, "a name has only letters, digits"}, BadUri{":/x", 1, "scheme must be"},
        BadUri{"1shm:/x", 1, "scheme must be"}, BadUri{"sh m:/x", 1, "scheme must be"},
        BadUri{"sh%6d:/x", 1, "scheme must be"}, BadUri{"sh\nm:/x", 1, "scheme must be"},
        BadUri{"?want_data=a:b", 1, "scheme must be"}, BadUri{"shm:/x#y", 7, "%23"}, BadUri{"shm:/a b", 7, "%20"},
        BadUri{"shm:/%", 6, "two hexadecimal digits"}, BadUri{"shm:/%4", 6, "two hexadecimal digits"},
        BadUri{"shm:/%4?a=1", 6, "two hexadecimal digits"}, BadUri{"shm:/%g0", 6, "two hexadecimal digits"},
        BadUri{"shm:/a%00b", 7, "control character"}, BadUri{"shm:/a\tb", 7, "control character"},
        BadUri{std::string("shm:/a\0b", 8), 7, "control character"}, BadUri{"shm:/a\x7F", 7, "control character"},
        BadUri{"shm:/x?a=%0a", 10, "control character"}, BadUri{"shm:/x?a=%7", 10, "two hexadecimal digits"},
        BadUri{"shm:/x?&a=1", 8, "without a name"}, BadUri{"shm:/x?a=1&", 12, "without a name"},
        BadUri{"shm:/x?=1", 8, "without a name"}, BadUri{"shm:/x?want_data", 17, "want_data has no value"},
        BadUri{"shm:/x?want_data=", 18, "want_data has no value"}, BadUri{"shm:/x?want_data=-1", 18, "decimal number"},
        BadUri{"shm:/x?want_data=+1", 18, "decimal number"}, BadUri{"shm:/x?want_data=%201", 18, "decimal number"},
        BadUri{"shm:/x?want_data=12z", 18, "'12z'"}, BadUri{"shm:/x?want_data=ff", 18, "decimal number"},
        BadUri{"shm:/x?want_data=0x", 18, "decimal number"}, BadUri{"shm:/x?want_data=0x0x1", 18, "decimal number"},
        BadUri{"shm:/x?want_data=1e3", 18, "decimal number"},
        BadUri{"shm:/x?want_data=18446744073709551616", 18, "over 18446744073709551615"},
        BadUri{"shm:/x?free_data=0x10000000000000000", 18, "over 18446744073709551615"},
        BadUri{"shm:/x?want_data=1&want_data=1", 20, "want_data is given twice"},
        BadUri{"shm:/x?free_data=1&%66ree_data=2", 20, "free_data is given twice"},
        BadUri{"shm:/x?remote_handle=AA&remote_handle=AA", 25, "remote_handle is given twice"},
        BadUri{"shm:/x?stream=data&stream=data", 20, "stream is given twice"},
        BadUri{"ucx:/x?crossdock=1&crossdock=1", 20, "crossdock is given twice"},
        BadUri{"ucx:/x?crossdock=2", 18, "it must be 1"}, BadUri{"ucx:/x?crossdock=", 18, "crossdock has no value"},
        BadUri{"shm:/x?stream=both", 15, "'both'"}, BadUri{"shm:/x?stream=Data", 15, "'Data'"},
        BadUri{"shm:/x?remote_handle=A", 22, "aren't a whole number of bytes"},
        BadUri{"shm:/x?remote_handle=AA=", 22, "aren't a whole number of bytes"},
        BadUri{"shm:/x?remote_handle=AAAA====", 22, "aren't a whole number of bytes"},
        BadUri{"shm:/x?remote_handle====", 22, "aren't a whole number of bytes"},
        BadUri{"shm:/x?remote_handle=AB", 22, "has extra bits"},
        BadUri{"shm:/x?remote_handle=A*", 22, "character 2 of it"},
        BadUri{"shm:/x?remote_handle=A=AA", 22, "character 2 of it"},
        BadUri{"shm:/x?remote_handle=%20AAA", 22, "character 1 of it"}));

TEST(Uri, WithoutASchemeSaysSoAndNamesNoPlace) {
  EXPECT_ERROR(parse_uri(""), UriError, "bad URI '': it has no scheme; write for example shm:flights");
  EXPECT_ERROR(parse_uri("/run/x.sock"), UriError, "bad URI '/run/x.sock': it has no scheme; write for example");
  EXPECT_ERROR(parse_uri("flights-2.x"), UriError,
               "bad URI 'flights-2.x': it has no scheme; did you mean shm:flights-2.x?");
}

TEST(Uri, ShowsAHugeOneCutOff) {
  EXPECT_ERROR(parse_uri("shm:" + std::string(100'000, '#')), UriError, "#'... (100004 bytes), at character 5");
}

TEST(ParseUri, ReadsEveryPartThatIsWritten) {
  Uri uri;
  uri.scheme = "shm";
  uri.address = "/run/a b?#%[\xC3\xA9";
  uri.want_data = UINT64_MAX;
  uri.free_data = 0;
  uri.remote_handle = bytes({0xFB, 0xFF});
  uri.role = ChannelRole::kMetadata;
  uri.others = {{"a=b&c", "d=e&f+"}, {"g", ""}};
  EXPECT_EQ(parse_uri("shm:/run/a%20b%3F%23%25[%C3%A9?want_data=18446744073709551615&free_data=0&remote_handle=-_8"
                      "&stream=metadata&a%3Db%26c=d=e%26f+&g="),
            uri);
  EXPECT_EQ(parse_uri(format_uri(uri)), uri);
}

TEST(ParseUri, ReadsASchemeAlone) {
  Uri uri;
  uri.scheme = "shm";
  EXPECT_EQ(parse_uri("shm:"), uri);
}

TEST(ParseUri, ReadsBackWhateverIsWritten) {
  std::mt19937_64 random(20260101);
  const auto text = [&](std::size_t longest) {
    std::string out(random() % (longest + 1), ' ');
    for (char& c : out) {
      const auto byte = static_cast<unsigned char>(random());
      c = byte < 0x20 || byte == 0x7F ? '?' : static_cast<char>(byte);
    }
    return out;
  };
  for (int round = 0; round < 2000; ++round) {
    Uri uri;
    uri.scheme = "s1+";
    uri.address = text(20);
    if (random() % 2 != 0) uri.want_data = random();
    if (random() % 2 != 0) uri.free_data = random() >> (random() % 64);
    uri.remote_handle.resize(random() % 9);
    for (std::byte& byte : uri.remote_handle) byte = static_cast<std::byte>(random());
    uri.role = static_cast<ChannelRole>(random() % 3);
    uri.crossdock = random() % 2 != 0;
    for (std::uint64_t i = random() % 3; i > 0; --i) uri.others.emplace_back("x" + text(5), text(10));
    ASSERT_EQ(parse_uri(format_uri(uri)), uri) << format_uri(uri);
  }
}

TEST(ParseUri, NeverDoesWorseThanAnErrorOnGarbage) {
  static constexpr std::string_view kPieces[] = {
      "shm",           ":",      "/",    "?",  "&",  "=",    "%", "%41", "%0",  "want_data", "free_data",
      "remote_handle", "stream", "data", "0x", "12", "\xFF", "+", "#",   "AA=="};
  std::mt19937_64 random(7);
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 == 0 ? "shm:/x?" : "";
    for (std::uint64_t i = random() % 8; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
    try {
      const Uri uri = parse_uri(text);
      ++taken;
      ASSERT_EQ(parse_uri(format_uri(uri)), uri) << text;
    } catch (const UriError&) {
      continue;
    }
  }
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace crossdock::dissociated
