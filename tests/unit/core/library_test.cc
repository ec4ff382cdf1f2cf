#include "core/library.h"

#include <gmock/gmock.h>

namespace crossdock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Library, OpensTheFirstThatTheLoaderTakes) {
  std::vector<std::string> tried;
  const auto library = Library::open({"libcrossdock-is-not-there.so.9", "libm.so.6", "libc.so.6"}, &tried);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(library->name(), "libm.so.6");
  EXPECT_THAT(tried, ElementsAre(StartsWith("libcrossdock-is-not-there.so.9: ")));
}

TEST(Library, FindsSymbolsOrNothing) {
  const auto library = Library::open({"libm.so.6"}, nullptr);
  ASSERT_NE(library, nullptr);
  auto* cosine = reinterpret_cast<double (*)(double)>(library->symbol("cos"));
  ASSERT_NE(cosine, nullptr);
  EXPECT_DOUBLE_EQ(cosine(0.0), 1.0);
  EXPECT_EQ(library->symbol("crossdock_has_no_such_symbol"), nullptr);
}

TEST(Library, SaysWhatWasTriedAndWhy) {
  std::vector<std::string> tried;
  EXPECT_EQ(Library::open({"libnone-a.so", "/nowhere/libnone-b.so"}, &tried), nullptr);
  EXPECT_THAT(tried, ElementsAre(HasSubstr("libnone-a.so: "), HasSubstr("No such file")));
  EXPECT_EQ(Library::open({"libnone-a.so"}, nullptr), nullptr);
  EXPECT_EQ(Library::open({}, &tried), nullptr);
  EXPECT_EQ(tried.size(), 2u);
}

TEST(Library, AFileThatIsNoLibraryIsReported) {
  std::vector<std::string> tried;
  EXPECT_EQ(Library::open({"/proc/self/cmdline"}, &tried), nullptr);
  ASSERT_EQ(tried.size(), 1u);
  EXPECT_THAT(tried.front(), StartsWith("/proc/self/cmdline: "));
}

}  // namespace
}  // namespace crossdock
