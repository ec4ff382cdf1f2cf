// Status codes and the error object.
#include <gmock/gmock.h>

#include "crossdock/core/error.h"
#include "crossdock/version.h"
#include "samples.h"

namespace crossdock::testing {
namespace {

using ::testing::HasSubstr;

TEST(CStatus, HasAName) {
  EXPECT_STREQ(crossdock_status_name(CROSSDOCK_OK), "OK");
  EXPECT_STREQ(crossdock_status_name(CROSSDOCK_ERROR_NOT_FOUND), "NotFoundError");
  EXPECT_STREQ(crossdock_status_name(CROSSDOCK_ERROR_INTERNAL), "InternalError");
  EXPECT_STREQ(crossdock_status_name(-1), "Error");
  EXPECT_STREQ(crossdock_status_name(999), "Error");
}

TEST(CStatus, EveryCodeOfCppIsOne) {
  // A code that is added to ErrorCode is added to the header, too: the first number without a name comes after the
  // last.
  EXPECT_STREQ(crossdock_status_name(CROSSDOCK_ERROR_UPSTREAM), "UpstreamError");
  EXPECT_STREQ(crossdock_status_name(CROSSDOCK_ERROR_UPSTREAM + 1), "Error");
}

TEST(CStatus, VersionIsThatOfTheLibrary) { EXPECT_STREQ(crossdock_version(), CROSSDOCK_VERSION); }

TEST(CString, IsAViewOfAText) {
  EXPECT_EQ(crossdock_str("abc").size, 3U);
  EXPECT_EQ(crossdock_str("").size, 0U);
  EXPECT_EQ(crossdock_str(nullptr).size, 0U);
}

TEST(CError, OfNothingIsEmpty) {
  EXPECT_EQ(crossdock_error_status(nullptr), CROSSDOCK_OK);
  EXPECT_STREQ(crossdock_error_message(nullptr), "");
  EXPECT_STREQ(crossdock_error_call(nullptr), "");
  EXPECT_EQ(crossdock_error_errno(nullptr), 0);
  crossdock_error_release(nullptr);
  crossdock_error* none = nullptr;
  crossdock_error_release(&none);
}

TEST_F(CApi, ErrorSaysWhatAndWhichCall) {
  Reader reader;
  publish_numbers("flights");
  const auto status = crossdock_client_get(client_, crossdock_str("flight"), nullptr, &reader, &error_);
  EXPECT_EQ(status, CROSSDOCK_ERROR_NOT_FOUND);
  EXPECT_EQ(crossdock_error_status(error_), status);
  EXPECT_STREQ(crossdock_error_call(error_), "crossdock_client_get");
  EXPECT_THAT(crossdock_error_message(error_), HasSubstr("flights"));
  EXPECT_EQ(reader, nullptr);
}

TEST_F(CApi, OneErrorServesManyCalls) {
  Reader reader;
  EXPECT_TRUE(failed(crossdock_client_get(client_, crossdock_str("a"), nullptr, &reader, &error_),
                     CROSSDOCK_ERROR_NOT_FOUND, "'a'"));
  const crossdock_error* const first = error_;
  EXPECT_TRUE(failed(crossdock_server_withdraw(server_, crossdock_str("b"), &error_), CROSSDOCK_ERROR_NOT_FOUND, "b"));
  EXPECT_EQ(error_, first);
  EXPECT_STREQ(crossdock_error_call(error_), "crossdock_server_withdraw");
  Catalog catalog;
  EXPECT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
  EXPECT_STREQ(crossdock_error_call(error_), "crossdock_server_withdraw") << "a call that succeeds doesn't touch it";
}

TEST_F(CApi, AnErrorNeedNotBeAskedFor) {
  EXPECT_EQ(crossdock_server_withdraw(server_, crossdock_str("b"), nullptr), CROSSDOCK_ERROR_NOT_FOUND);
}

TEST_F(CApi, TheErrnoOfTheSystemIsKept) {
  Source source;
  ASSERT_TRUE(
      ok(crossdock_source_file(crossdock_str("/nowhere/flights.arrow"), CROSSDOCK_FILE_TRUST, &source, &error_)));
  EXPECT_TRUE(failed(crossdock_server_publish(server_, crossdock_str("f"), &source, nullptr, &error_),
                     CROSSDOCK_ERROR_NOT_FOUND, "/nowhere/flights.arrow"));
  EXPECT_EQ(crossdock_error_errno(error_), ENOENT);
}

TEST_F(CApi, ACallbackWritesAnError) {
  EXPECT_EQ(crossdock_error_set(&error_, CROSSDOCK_ERROR_TIMEOUT, crossdock_str("too late")), CROSSDOCK_ERROR_TIMEOUT);
  EXPECT_STREQ(crossdock_error_message(error_), "too late");
  EXPECT_STREQ(crossdock_error_call(error_), "");
  EXPECT_EQ(crossdock_error_set(nullptr, 77, crossdock_str("nobody")), 77);
  EXPECT_EQ(crossdock_error_set(&error_, 77, {nullptr, 5}), 77);
  EXPECT_STREQ(crossdock_error_message(error_), "");
  EXPECT_EQ(crossdock_error_set(&error_, 77, {"x", SIZE_MAX}), 77);
  EXPECT_EQ(crossdock_error_status(error_), 77);
}

}  // namespace
}  // namespace crossdock::testing
