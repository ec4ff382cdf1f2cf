#include "crossdock/core/error.h"

#include <gmock/gmock.h>

#include <cxxabi.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <typeinfo>

namespace crossdock {
namespace {

constexpr int kLastCode = static_cast<int>(ErrorCode::kUpstream);

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int code = 1; code <= kLastCode; ++code) {
    const std::string_view name = error_name(static_cast<ErrorCode>(code));
    EXPECT_THAT(std::string(name), ::testing::EndsWith("Error"));
    EXPECT_NE(name, "Error") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(error_name(static_cast<ErrorCode>(kLastCode + 1)), "Error");
}

TEST(Error, ThrowsTheCodeThatItWasGiven) {
  for (int code = 1; code <= kLastCode + 1; ++code) {
    try {
      throw_error(static_cast<ErrorCode>(code), "what happened");
      ADD_FAILURE() << "nothing thrown for " << code;
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), code);
      EXPECT_STREQ(error.what(), "what happened");
    }
  }
}

TEST(Error, EveryClassHasTheNameOfItsCode) {
  // The C++ library prints this name if nobody catches an error.
  for (int code = 1; code <= kLastCode; ++code) {
    try {
      throw_error(static_cast<ErrorCode>(code), "what happened");
    } catch (const Error& error) {
      int status = 0;
      const std::unique_ptr<char, decltype(&std::free)> name(
          abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
      ASSERT_EQ(status, 0);
      EXPECT_EQ(name.get(), "crossdock::" + std::string(error_name(error.code())));
    }
  }
}

TEST(Error, EveryCodeIsCaughtByItsClass) {
  EXPECT_THROW(throw_error(ErrorCode::kInvalidArgument, ""), InvalidArgumentError);
  EXPECT_THROW(throw_error(ErrorCode::kTruncatedStream, ""), TruncatedStreamError);
  EXPECT_THROW(throw_error(ErrorCode::kFork, ""), ForkError);
  EXPECT_THROW(throw_error(ErrorCode::kStreamBusy, ""), StreamBusyError);
  EXPECT_THROW(throw_error(ErrorCode::kUnsupported, ""), UnsupportedError);
  EXPECT_THROW(throw_error(ErrorCode::kExport, ""), ExportError);
  EXPECT_THROW(throw_error(ErrorCode::kExecutionPlacement, ""), ExecutionPlacementError);
  EXPECT_THROW(throw_error(ErrorCode::kSystem, ""), std::runtime_error);
}

TEST(Error, TurnsSystemErrorsIntoTheClassThatHelps) {
  EXPECT_THROW(throw_errno(ENOMEM, ""), ResourceError);
  EXPECT_THROW(throw_errno(EMFILE, ""), ResourceError);
  EXPECT_THROW(throw_errno(ENFILE, ""), ResourceError);
  EXPECT_THROW(throw_errno(ENOSPC, ""), ResourceError);
  EXPECT_THROW(throw_errno(EACCES, ""), PermissionError);
  EXPECT_THROW(throw_errno(EPERM, ""), PermissionError);
  EXPECT_THROW(throw_errno(ENOENT, ""), NotFoundError);
  EXPECT_THROW(throw_errno(EIO, ""), SystemError);
  try {
    throw_errno(EMFILE, "opening region 3");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "opening region 3: Too many open files; process " + std::to_string(::getpid()) +
                  " has reached its limit of open files: close some there, or raise the limit (ulimit -n)");
  }
}

}  // namespace
}  // namespace crossdock
