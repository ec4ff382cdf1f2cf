// libfabric's library: where it is looked for, and what is said if it, or a provider, can't be used.
#include <signal.h>

#include <cstdlib>

#include "support.h"
#include "support/scoped_variable.h"
#include "transport/fabric/library.h"

namespace crossdock::transport::fabric_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScopedVariable;

constexpr const char* kVariable = "CROSSDOCK_FABRIC_LIBRARY";

TEST(FabricLibrary, IsLookedForAtTheCallersPathsAndThenAsTheSystems) {
  const ScopedVariable none(kVariable, nullptr);
  EXPECT_THAT(library_candidates({}), ElementsAre("libfabric.so.1"));
  EXPECT_THAT(library_candidates({"/a/libfabric.so.1"}), ElementsAre("/a/libfabric.so.1", "libfabric.so.1"));
  const ScopedVariable chosen(kVariable, "/b/libfabric.so.1");
  EXPECT_THAT(library_candidates({"/a/libfabric.so.1"}), ElementsAre("/b/libfabric.so.1"));
}

// Before any other test of this process opens the library.
TEST(FabricLibrary, AMissingOneIsNamedWithWhatToDo) {
  if (Library::find_loaded("libfabric.so.1") != nullptr) GTEST_SKIP() << "another test of this process has opened it";
  const ScopedVariable chosen(kVariable, "/no/such/libfabric.so.1");
  EXPECT_FALSE(find_fabric().found);
  EXPECT_THAT(find_fabric().tried, ElementsAre(HasSubstr("/no/such/libfabric.so.1: cannot open shared object file")));
  for (const auto& use : std::initializer_list<std::function<void()>>{[] { fabric_listen("", 1, 2, {}, nullptr); },
                                                                      [] { FabricLibrary::require({}); }}) {
    try {
      use();
      FAIL() << "it was found";
    } catch (const UnsupportedError& error) {
      EXPECT_THAT(error.what(), HasSubstr("/no/such/libfabric.so.1: cannot open shared object file"));
    }
  }
  std::vector<std::string> tried;
  const ScopedVariable another(kVariable, "libz.so.1");
  EXPECT_EQ(FabricLibrary::open({}, &tried), nullptr);
  EXPECT_THAT(tried,
              ElementsAre(AllOf(HasSubstr("libz.so.1 lacks fi_getinfo@FABRIC_1.3, "), HasSubstr(" and 3 more"))));
}

TEST(FabricLibrary, SaysWhatWasOpened) {
  const FabricReport report = find_fabric();
  if (!report.found) GTEST_SKIP() << ::testing::PrintToString(report.tried);
  EXPECT_THAT(report.library, HasSubstr("libfabric.so"));
  EXPECT_THAT(report.version, HasSubstr("."));
  EXPECT_EQ(report.provider, "tcp;ofi_rxm");
  EXPECT_EQ(FabricLibrary::open({"/no/such/libfabric.so.1"}, nullptr), FabricLibrary::require({}));
  EXPECT_EQ(std::getenv("FI_OFI_RXM_BUFFER_SIZE"), nullptr) << "the environment is as it was";
}

TEST(FabricLibrary, LeavesTheProcesssSignalsAlone) {
  const auto handlers = [] {
    std::vector<void (*)(int)> all;
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGPIPE}) {
      struct sigaction now {};
      EXPECT_EQ(::sigaction(signal, nullptr, &now), 0);
      all.push_back(now.sa_handler);
    }
    return all;
  };
  const auto before = handlers();  // a sanitizer, or whoever started this process, has some of its own
  find_fabric();
  EXPECT_EQ(handlers(), before);
}

TEST(FabricLibrary, AProviderThatIsMissingIsNamed) {
  FabricOptions options;
  options.provider = "smoke;signals";
  const FabricReport report = find_fabric(options);
  EXPECT_FALSE(report.found);
  if (report.library.empty()) GTEST_SKIP() << "no libfabric";
  EXPECT_THAT(report.tried, ElementsAre(HasSubstr("has no provider \"smoke;signals\"")));
  EXPECT_THROW(fabric_listen("", 1, 2, options, nullptr), UnsupportedError);
}

TEST(FabricLibrary, ProvidersThatCantWorkAreRefusedWithTheReason) {
  for (const auto& [name, why] : std::vector<std::pair<std::string, std::string>>{
           {"shm", "use the transport shm:"}, {"net", "readable at all times"}, {"", "from 1 to 64 bytes"}}) {
    FabricOptions options;
    options.provider = name;
    try {
      make_fabric_transport(options);
      FAIL() << name;
    } catch (const InvalidArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
}

}  // namespace
}  // namespace crossdock::transport::fabric_test
