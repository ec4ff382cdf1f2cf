// What a server does with names: publish, replace, update, withdraw, drain.
#include <gmock/gmock.h>

#include <thread>

#include "samples.h"

namespace crossdock::testing {
namespace {

using ::testing::ElementsAre;

class CPublish : public CApi {
 protected:
  void numbers_from(std::int64_t first, crossdock_source** source) {
    Released<ArrowArrayStream> stream;
    array::export_stream(stream_of({number_batch(first, 2)}), &stream);
    ASSERT_TRUE(ok(crossdock_source_table(&stream, source, &error_)));
  }
  std::vector<std::string> names() {
    Catalog catalog;
    EXPECT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < crossdock_catalog_size(catalog); ++i) {
      crossdock_entry entry{};
      entry.size = sizeof entry;
      EXPECT_TRUE(ok(crossdock_catalog_entry(catalog, i, &entry, &error_)));
      names.emplace_back(entry.name.data, entry.name.size);
    }
    return names;
  }
};

TEST_F(CPublish, ANameIsReplacedOnlyIfAskedFor) {
  Source first;
  Source second;
  Source third;
  numbers_from(0, &first);
  numbers_from(10, &second);
  numbers_from(20, &third);
  publish("t", &first);
  EXPECT_TRUE(failed(crossdock_server_publish(server_, crossdock_str("t"), &second, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "t"));
  EXPECT_EQ(second, nullptr) << "publishing consumes the source in any case";
  EXPECT_THAT(get_numbers("t"), ElementsAre(0, 1));
  crossdock_publish_options replace{};
  replace.size = sizeof replace;
  replace.replace = 1;
  publish("t", &third, &replace);
  EXPECT_THAT(get_numbers("t"), ElementsAre(20, 21));
}

TEST_F(CPublish, ATableForOneConsumerGoesWithIt) {
  Source source;
  numbers_from(0, &source);
  crossdock_publish_options once{};
  once.size = sizeof once;
  once.times = 1;
  publish("t", &source, &once);
  EXPECT_THAT(get_numbers("t"), ElementsAre(0, 1));
  Reader reader;
  EXPECT_TRUE(
      failed(crossdock_client_get(client_, crossdock_str("t"), nullptr, &reader, &error_), CROSSDOCK_ERROR_NOT_FOUND));
}

TEST_F(CPublish, AnUpdateIsAllOrNothing) {
  Source old;
  numbers_from(0, &old);
  publish("old", &old);
  const crossdock_string withdrawn[] = {crossdock_str("old"), crossdock_str("nobody")};
  Source a;
  Source b;
  numbers_from(0, &a);
  numbers_from(10, &b);
  const crossdock_publication both[] = {{sizeof(crossdock_publication), crossdock_str("a"), &a},
                                        {sizeof(crossdock_publication), crossdock_str("b"), &b}};
  EXPECT_TRUE(failed(crossdock_server_update(server_, both, 2, withdrawn, 2, nullptr, &error_),
                     CROSSDOCK_ERROR_NOT_FOUND, "nobody"));
  EXPECT_EQ(a, nullptr);
  EXPECT_EQ(b, nullptr);
  EXPECT_THAT(names(), ElementsAre("old"));

  numbers_from(0, &a);
  numbers_from(10, &b);
  EXPECT_TRUE(ok(crossdock_server_update(server_, both, 2, withdrawn, 1, nullptr, &error_)));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
  EXPECT_TRUE(ok(crossdock_server_update(server_, nullptr, 0, nullptr, 0, nullptr, &error_)));
}

TEST_F(CPublish, AnUpdateWithAMissingSourceConsumesNone) {
  Source a;
  numbers_from(0, &a);
  crossdock_source* none = nullptr;
  const crossdock_publication both[] = {{sizeof(crossdock_publication), crossdock_str("a"), &a},
                                        {sizeof(crossdock_publication), crossdock_str("b"), &none}};
  EXPECT_TRUE(failed(crossdock_server_update(server_, both, 2, nullptr, 0, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "*source is NULL"));
  EXPECT_NE(a, nullptr);
}

TEST_F(CPublish, AnUpdateWithOneSourceTwiceConsumesNone) {
  Source a;
  numbers_from(0, &a);
  crossdock_source* copy = a;
  for (crossdock_source** again : {&a, &copy}) {
    const crossdock_publication twice[] = {{sizeof(crossdock_publication), crossdock_str("a"), &a},
                                           {sizeof(crossdock_publication), crossdock_str("b"), again}};
    EXPECT_TRUE(failed(crossdock_server_update(server_, twice, 2, nullptr, 0, nullptr, &error_),
                       CROSSDOCK_ERROR_INVALID_ARGUMENT, "the same source twice"));
    EXPECT_NE(a, nullptr);
    EXPECT_THAT(names(), ElementsAre());
  }
  publish("a", &a);
}

TEST_F(CPublish, AnUpdateWithOtherWrongArgumentsConsumesNone) {
  Source a;
  numbers_from(0, &a);
  const crossdock_publication one[] = {{sizeof(crossdock_publication), crossdock_str("a"), &a}};
  crossdock_publish_options options = {};
  options.size = 3;
  EXPECT_TRUE(failed(crossdock_server_update(server_, one, 1, nullptr, 0, &options, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "crossdock_publish_options"));
  EXPECT_TRUE(failed(crossdock_server_update(server_, one, 1, nullptr, 3, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "withdrawn"));
  const crossdock_publication without_name[] = {{sizeof(crossdock_publication), {nullptr, 1}, &a}};
  EXPECT_TRUE(failed(crossdock_server_update(server_, without_name, 1, nullptr, 0, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "name"));
  EXPECT_NE(a, nullptr);
}

TEST_F(CPublish, AnUpdateWithoutSizesConsumesNone) {
  Source a;
  numbers_from(0, &a);
  const crossdock_publication without_size[] = {{0, crossdock_str("a"), &a}};
  EXPECT_TRUE(failed(crossdock_server_update(server_, without_size, 1, nullptr, 0, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "sizeof(crossdock_publication)"));
  EXPECT_NE(a, nullptr);
}

TEST_F(CPublish, AWithdrawnNameIsNotFound) {
  publish_numbers("t");
  ASSERT_TRUE(ok(crossdock_server_withdraw(server_, crossdock_str("t"), &error_)));
  EXPECT_THAT(names(), ElementsAre());
  EXPECT_TRUE(failed(crossdock_server_withdraw(server_, crossdock_str("t"), &error_), CROSSDOCK_ERROR_NOT_FOUND));
}

TEST_F(CPublish, ANameMayHaveAnyBytes) {
  Source source;
  numbers_from(0, &source);
  const crossdock_string name = {"\xff\0\xfe", 3};
  ASSERT_TRUE(ok(crossdock_server_publish(server_, name, &source, nullptr, &error_)));
  EXPECT_THAT(names(), ElementsAre(std::string("\xff\0\xfe", 3)));
  Reader reader;
  EXPECT_TRUE(ok(crossdock_client_get(client_, name, nullptr, &reader, &error_)));
}

TEST_F(CPublish, DrainWaitsForStreams) {
  publish_numbers("t", 200, 1);  // more messages than the window: the rest is sent as the consumer reads
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("t"), nullptr, &reader, &error_)));
  std::int32_t drained = -1;
  ASSERT_TRUE(ok(crossdock_server_drain(server_, 0, &drained, &error_)));
  EXPECT_EQ(drained, 0);
  Reader late;
  EXPECT_TRUE(
      failed(crossdock_client_get(client_, crossdock_str("t"), nullptr, &late, &error_), CROSSDOCK_ERROR_CLOSED));
  EXPECT_EQ(numbers_of(reader).size(), 200U);
  ASSERT_TRUE(ok(crossdock_server_drain(server_, -1, &drained, &error_)));
  EXPECT_EQ(drained, 1);
  EXPECT_TRUE(ok(crossdock_server_drain(server_, INT64_MAX, nullptr, &error_)));
}

}  // namespace
}  // namespace crossdock::testing
