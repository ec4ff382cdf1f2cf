#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>

#include "core/library.h"
#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "support.h"
#include "support/scoped_variable.h"
#include "transport/ucx.h"
#include "transport/ucx/log_sinks.h"

namespace crossdock::transport::ucx_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScopedVariable;
using ::testing::StartsWith;

constexpr const char* kVariable = "CROSSDOCK_UCX_LIBRARY";

TEST(UcxLibrary, IsLookedForAtTheCallersPathsAndThenAsTheSystems) {
  const ScopedVariable none(kVariable, nullptr);
  EXPECT_THAT(library_candidates({}), ElementsAre("libucp.so.0"));
  EXPECT_THAT(library_candidates({"/a/libucp.so.0"}), ElementsAre("/a/libucp.so.0", "libucp.so.0"));
  const ScopedVariable chosen(kVariable, "/b/libucp.so.0");
  EXPECT_THAT(library_candidates({"/a/libucp.so.0"}), ElementsAre("/b/libucp.so.0"));
}

TEST(UcxLibrary, SaysWhatWasOpened) {
  const UcxReport report = find_ucx();
  ASSERT_TRUE(report.found) << ::testing::PrintToString(report.tried);
  EXPECT_THAT(report.library, HasSubstr("libucp.so"));
  EXPECT_THAT(report.version, StartsWith("1."));
}

TEST(UcxLibrary, WhatCantBeOpenedIsListed) {
  const ScopedVariable none(kVariable, nullptr);
  if (Library::find_loaded("libucp.so.0") != nullptr) GTEST_SKIP() << "another test of this process has opened it";
  std::vector<std::string> tried;
  ASSERT_NE(UcxLibrary::open({"/no/such/libucp.so.0", "libz.so.1"}, &tried), nullptr) << "the system's is the last";
  EXPECT_THAT(tried, ElementsAre(HasSubstr("/no/such/libucp.so.0"), StartsWith("libz.so.1")));
  EXPECT_THAT(tried[1], AllOf(HasSubstr("lacks ucp_get_version, "), HasSubstr(" more")));
}

TEST(UcxLibrary, WithoutOneTheErrorSaysWhatToDo) {
  if (Library::find_loaded("libucp.so.0") != nullptr) GTEST_SKIP() << "another test of this process has opened it";
  const ScopedVariable chosen(kVariable, "/no/such/libucp.so.0");
  EXPECT_FALSE(find_ucx().found);
  EXPECT_THAT(find_ucx().tried, ElementsAre(HasSubstr("/no/such/libucp.so.0: cannot open shared object file")));
  try {
    UcxContexts contexts(UcxOptions{});
    FAIL() << "it was found";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/libucp.so.0: cannot open shared object file"));
    EXPECT_THAT(error.what(), HasSubstr("apt-get install libucx0"));
    EXPECT_THAT(error.what(), HasSubstr(kVariable));
  }
}

TEST(UcxLibrary, IsOneForTheProcess) {
  const auto first = UcxLibrary::open({}, nullptr);
  EXPECT_EQ(UcxLibrary::open({"/no/such/libucp.so.0"}, nullptr), first);
}

/// Makes UCX warn: it doesn't know the device.
void warn() {
  const auto library = UcxLibrary::require({});
  try {
    const auto context = std::make_shared<const UcxContext>(library, UcxOptions{}, AF_INET, "no-such-device");
    Worker worker(context, kLimits, "nobody");
  } catch (const Error&) {  // There may be nothing left to use.
  }
}

TEST(UcxLibrary, OneThatWasClosedIsOursStill) {
  std::vector<std::string> lines;
  for (int i = 0; i < 2; ++i) {
    const auto sink = log_sinks().add([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    lines.clear();
    warn();
    EXPECT_THAT(lines, ::testing::Contains(HasSubstr("no-such-device"))) << i;
  }
}

TEST(UcxLibrary, TheOneThatAnotherPackageHasLoadedIsUsed) {
  const auto loaded = Library::open({"libucp.so.0"}, nullptr);
  ASSERT_NE(loaded, nullptr);
  const ScopedVariable chosen(kVariable, "/no/such/libucp.so.0");
  const auto library = UcxLibrary::open({}, nullptr);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(reinterpret_cast<void*>(library->api().init_version), loaded->symbol("ucp_init_version"));
}

/// The handlers of all signals.
std::map<int, void (*)(int)> handlers() {
  std::map<int, void (*)(int)> all;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0) all[number] = now.sa_handler;
  }
  return all;
}

TEST(UcxLibrary, SignalsStayAsTheyWere) {
  struct sigaction ours {};
  ours.sa_handler = [](int) { ::_exit(3); };
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGBUS, &ours, &before), 0);
  const auto expected = handlers();
  {
    Ends ends;
    ASSERT_TRUE(ends.client.endpoint->send_untagged(as_bytes("x"), {}));
    ends.receive(ends.server);
    EXPECT_EQ(handlers(), expected) << "with the library open";
  }
  EXPECT_EQ(handlers(), expected) << "after it was closed";
  ::sigaction(SIGBUS, &before, nullptr);
}

/// What is written to standard output and standard error.
class Output {
 public:
  Output() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("no pipe");
    read_.reset(ends[0]);
    for (const int stream : {1, 2}) {
      before_[static_cast<std::size_t>(stream - 1)].reset(::dup(stream));
      ::dup2(ends[1], stream);
    }
    ::close(ends[1]);
  }
  std::string end() {
    for (const int stream : {1, 2}) ::dup2(before_[static_cast<std::size_t>(stream - 1)].get(), stream);
    std::array<char, 4096> text{};
    const ssize_t got = ::read(read_.get(), text.data(), text.size());
    return {text.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  }

 private:
  UniqueFd read_;
  std::array<UniqueFd, 2> before_;
};

TEST(UcxLibrary, NothingIsPrintedAndLinesOfTheLogArePassedOn) {
  std::vector<std::string> lines;
  const ScopedVariable unused("UCX_NO_SUCH_OPTION", "1");
  Output output;
  warn();  // into nothing
  auto sink = log_sinks().add([&](LogLevel level, std::string_view line) {
    if (level >= LogLevel::kWarning) lines.emplace_back(line);
  });
  warn();
  sink.reset();
  const std::size_t count = lines.size();
  warn();
  const std::string printed = output.end();
  EXPECT_EQ(printed, "");
  EXPECT_EQ(lines.size(), count) << "the sink was removed";
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("no-such-device")));
  EXPECT_THAT(lines, ::testing::Each(StartsWith("UCX: ")));
}

TEST(UcxLibrary, TheEnvironmentIsUntouched) {
  const auto variables = [] {
    std::vector<std::string> all;
    for (char** at = environ; *at != nullptr; ++at) all.emplace_back(*at);
    return all;
  };
  const auto before = variables();
  { Ends ends; }
  EXPECT_EQ(variables(), before);
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
