// Live streams and factories.
#include <gmock/gmock.h>

#include <thread>

#include "samples.h"

namespace crossdock::testing {
namespace {

using ::testing::ElementsAre;

TEST_F(CApi, ALiveStreamIsReadOnce) {
  Released<ArrowArrayStream> stream;
  array::export_stream(number_stream(3, 1), &stream);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_live(&stream, &source, &error_)));
  publish("ticks", &source);
  EXPECT_THAT(get_numbers("ticks"), ElementsAre(0, 1, 2));
  Reader again;
  EXPECT_TRUE(failed(crossdock_client_get(client_, crossdock_str("ticks"), nullptr, &again, &error_),
                     CROSSDOCK_ERROR_CONSUMED));
}

TEST_F(CApi, ALiveDeviceStreamIsReadOnce) {
  Released<ArrowDeviceArrayStream> stream;
  array::export_device_stream(number_stream(2, 2), &stream);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_device_live(&stream, &source, &error_)));
  publish("ticks", &source);
  EXPECT_THAT(get_numbers("ticks"), ElementsAre(0, 1, 2, 3));
}

/// What a factory's functions are given.
struct Maker {
  std::atomic<int> made = 0;
  std::atomic<int> freed = 0;

  static crossdock_status make(void* user, ArrowArrayStream* out, crossdock_error** /*error*/) {
    ++static_cast<Maker*>(user)->made;
    array::export_stream(number_stream(1, 2), out);
    return CROSSDOCK_OK;
  }
  static crossdock_status fail(void* /*user*/, ArrowArrayStream* /*out*/, crossdock_error** error) {
    return crossdock_error_set(error, CROSSDOCK_ERROR_PERMISSION, crossdock_str("not for you"));
  }
  static crossdock_status fail_without_text(void* /*user*/, ArrowArrayStream* /*out*/, crossdock_error** /*error*/) {
    return CROSSDOCK_ERROR_RESOURCE;
  }
  static crossdock_status make_nothing(void* /*user*/, ArrowArrayStream* /*out*/, crossdock_error** /*error*/) {
    return CROSSDOCK_OK;
  }
  static void free(void* user) { ++static_cast<Maker*>(user)->freed; }
};

TEST_F(CApi, AFactoryMakesAStreamForEachConsumer) {
  Maker maker;
  Source source;
  ASSERT_TRUE(ok(crossdock_source_factory(&Maker::make, &Maker::free, &maker, &source, &error_)));
  publish("ticks", &source);
  EXPECT_THAT(get_numbers("ticks"), ElementsAre(0, 1));
  EXPECT_THAT(get_numbers("ticks"), ElementsAre(0, 1));
  EXPECT_EQ(maker.made, 2);
  EXPECT_EQ(maker.freed, 0);

  Catalog catalog;
  ASSERT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
  crossdock_entry entry{};
  entry.size = sizeof entry;
  ASSERT_TRUE(ok(crossdock_catalog_entry(catalog, 0, &entry, &error_)));
  EXPECT_EQ(entry.kind, CROSSDOCK_KIND_FACTORY);

  crossdock_server_release(&server_);
  EXPECT_EQ(maker.freed, 1);
}

TEST_F(CApi, AFactorysFailureReachesTheConsumer) {
  const std::pair<crossdock_make_stream, const char*> cases[] = {
      {&Maker::fail, "not for you"}, {&Maker::fail_without_text, "gave no text"}, {&Maker::make_nothing, "made none"}};
  for (const auto& [make, text] : cases) {
    Maker maker;
    Source source;
    ASSERT_TRUE(ok(crossdock_source_factory(make, &Maker::free, &maker, &source, &error_)));
    publish("ticks", &source);
    Reader reader;
    const auto status = crossdock_client_get(client_, crossdock_str("ticks"), nullptr, &reader, &error_);
    EXPECT_NE(status, CROSSDOCK_OK);
    EXPECT_TRUE(failed(status, status, text));
    EXPECT_TRUE(ok(crossdock_server_withdraw(server_, crossdock_str("ticks"), &error_)));
    // The source's thread may be the last owner.
    while (maker.freed == 0) std::this_thread::yield();
  }
}

TEST_F(CApi, AFactoryThatWasNotMadeFreesNothing) {
  Maker maker;
  Source source;
  EXPECT_TRUE(failed(crossdock_source_factory(nullptr, &Maker::free, &maker, &source, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "make is NULL"));
  EXPECT_EQ(maker.freed, 0);
  ASSERT_TRUE(ok(crossdock_source_factory(&Maker::make, &Maker::free, &maker, &source, &error_)));
  crossdock_source_release(&source);
  EXPECT_EQ(maker.freed, 1);
  ASSERT_TRUE(ok(crossdock_source_factory(&Maker::make, nullptr, &maker, &source, &error_)));
}

}  // namespace
}  // namespace crossdock::testing
