// Parts of tables, and statistics: what a server answers, and what it refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "dissociated/request.h"
#include "dissociated/uri.h"
#include "dissociated/wire.h"
#include "fake_server.h"
#include "session/compute_batch_statistics.h"
#include "session/selected_messages.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "transport/shm.h"

namespace crossdock::session {
namespace {

using dissociated::MessageType;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;

class PartsTest : public testing::NoLeftovers {};

std::vector<std::int64_t> numbers_of(Reader& reader) {
  std::vector<std::int64_t> numbers;
  while (const auto batch = reader.next()) {
    for (std::int64_t i = 0; i < batch->num_rows; ++i) numbers.push_back(number_at(*batch, batch->nodes[0].offset + i));
  }
  return numbers;
}

std::vector<std::int64_t> range_of(std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> numbers;
  for (; first < end; ++first) numbers.push_back(first);
  return numbers;
}

GetOptions batches(std::vector<BatchRange> ranges) {
  GetOptions options;
  options.batches = std::move(ranges);
  return options;
}

TEST_F(PartsTest, BatchesByTheirPlaces) {
  Server server;
  server.publish("t", Source::table(number_stream(10, 5)));
  Client client(server.uri());
  EXPECT_EQ(numbers_of(*client.get("t", batches({{2, 1}, {4, 2}}))),
            (std::vector<std::int64_t>{10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}));
  EXPECT_EQ(numbers_of(*client.get("t", batches({}))), range_of(0, 0));
  EXPECT_EQ(numbers_of(*client.get("t", batches({{9, 4294967287u}}))), range_of(45, 50));
  EXPECT_EQ(numbers_of(*client.get("t", batches({{10, 1}}))), range_of(0, 0));
  EXPECT_EQ(numbers_of(*client.get("t")), range_of(0, 50));
  EXPECT_THROW(client.get("t", batches({{4, 1}, {2, 1}})), InvalidArgumentError);
  EXPECT_THROW(client.get("t", batches({{4, 0}})), InvalidArgumentError);
}

TEST_F(PartsTest, RowsAcrossBatches) {
  Server server;
  server.publish("t", Source::table(number_stream(10, 5)));
  Client client(server.uri());
  for (const auto& [first, count] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 50},
                                                                                         {0, 1},
                                                                                         {4, 2},
                                                                                         {5, 5},
                                                                                         {7, 30},
                                                                                         {49, 1},
                                                                                         {49, 100},
                                                                                         {50, 1},
                                                                                         {0, 0},
                                                                                         {3, 0},
                                                                                         {7, ~0ull},
                                                                                         {~0ull, 5}}) {
    GetOptions options;
    options.rows = RowRange{first, count};
    const auto end = static_cast<std::int64_t>(std::min<std::uint64_t>(50, count > 50 ? 50 : first + count));
    const auto begin = static_cast<std::int64_t>(std::min<std::uint64_t>(50, first));
    EXPECT_EQ(numbers_of(*client.get("t", options)), range_of(begin, end)) << first << " " << count;
  }
  GetOptions both = batches({{0, 1}});
  both.rows = RowRange{0, 1};
  EXPECT_THROW(client.get("t", both), InvalidArgumentError);
}

TEST_F(PartsTest, StatisticsAreATable) {
  Server server;
  server.publish("t", Source::table(number_stream(3, 5)));
  Client client(server.uri());
  const auto reader = client.batch_statistics("t", {"absent", "number", "text", "number"});
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->version(), client.get("t")->version());
  std::vector<std::string> names;
  for (const array::Field& field : reader->schema()->fields()) names.push_back(field.name);
  EXPECT_EQ(names, (std::vector<std::string>{"rows", "1.nulls", "1.min", "1.max", "2.nulls", "2.min", "2.max",
                                             "3.nulls", "3.min", "3.max"}));
  const auto batch = reader->next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->num_rows, 3);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(number_at(*batch, i), 5);
  EXPECT_FALSE(reader->next());
}

TEST_F(PartsTest, WhatHasNoPartsIsRefused) {
  Server server;
  server.publish("live", Source::factory([] { return number_stream(2, 2); }));
  Client client(server.uri());
  EXPECT_THROW(client.get("live", batches({{0, 1}})), UnsupportedError);
  EXPECT_THROW(client.batch_statistics("live", {}), UnsupportedError);
  EXPECT_THROW(client.batch_statistics("absent", {}), NotFoundError);
  EXPECT_THROW(server.publish(std::string("\0XDREQ\0\1t", 9), Source::table(number_stream(1, 1))),
               InvalidArgumentError);
}

TEST_F(PartsTest, ADamagedRequestIsRefusedAndTheConnectionGoesOn) {
  Server server;
  server.publish("t", Source::table(number_stream(3, 5)));
  const auto connection = transport::shm_connect(dissociated::parse_uri(server.uri()).address, {}, 10'000, {});
  const auto answer_to = [&](std::string_view request) {
    EXPECT_TRUE(connection->send_tagged(connection->agreement().want_data, as_bytes(request), {}));
    for (;;) {
      const transport::Incoming message = wait_for_message(*connection);
      if (message.tagged || dissociated::read_prefix(message.bytes).type == MessageType::kMetadata) continue;
      return std::pair(dissociated::read_prefix(message.bytes).type,
                       std::string(as_text(message.bytes.subspan(dissociated::kPrefixSize))));
    }
  };
  const auto good = dissociated::encode_request({.ticket = "t", .batches = {{{1, 1}}}});
  for (std::size_t size = 8; size < good.size() - 1; ++size) {
    const auto [type, why] = answer_to(as_text(ByteSpan(good).first(size)));
    EXPECT_EQ(type, MessageType::kError) << size;
    EXPECT_TRUE(why.starts_with("ProtocolError")) << why;
  }
  EXPECT_EQ(answer_to(as_text(good)).first, MessageType::kEndOfStream);
  const std::string unknown = std::string("\0XDREQ\0\1", 8) + std::string("\x63\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0t", 17);
  EXPECT_TRUE(answer_to(unknown).second.starts_with("UnsupportedError"));
  EXPECT_EQ(answer_to("t").first, MessageType::kEndOfStream);
}

TEST(BatchStatisticsTest, OffsetsThatLeadAstrayAreAnError) {
  array::RecordBatch batch = number_batch(0, 10);
  std::vector<std::int32_t> offsets(11);
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<std::int32_t>(i);
  for (const std::int32_t wrong : {-1, 1000, 1 << 30}) {
    auto bad = offsets;
    bad[5] = wrong;
    array::RecordBatch given = batch;
    given.buffers[3] = {bad.data(), 44};
    auto stream = testing::FunctionStream(
        batch.schema, [&, n = 0]() mutable { return n++ == 0 ? std::optional(given) : std::nullopt; });
    const auto table = publish_stream(stream, *Runtime::default_runtime(), exchange::wait_in_driver);
    const std::vector<int> columns{1};
    EXPECT_THROW(compute_batch_statistics(*table, table->readable_regions(), columns), InvalidDataError) << wrong;
  }
}

/// A table whose messages are, after the schema's, those of `marks`: a batch, or a dictionary.
std::shared_ptr<const PublishedTable> table_of(const std::vector<DictionaryMark>& marks) {
  TableBuilder builder(testing::make_schema({{"x", array::TypeId::kInt64}}));
  for (const DictionaryMark& mark : marks) builder.add(as_bytes("m"), true, {}, mark.id < 0 ? 1 : 0, mark);
  return builder.finish();
}

TEST(SelectedMessagesTest, DictionariesInForceComeToo) {
  const DictionaryMark batch{};
  const DictionaryMark one{.id = 1};
  const DictionaryMark two{.id = 2};
  const DictionaryMark delta{.id = 1, .is_delta = true};
  //                             1    2    3      4    5      6      7      8    9
  const auto table = table_of({one, two, batch, one, batch, delta, batch, two, batch});
  using Messages = std::vector<std::uint32_t>;
  const auto select = [&](std::vector<dissociated::BatchRange> ranges) { return selected_messages(*table, ranges); };
  EXPECT_EQ(select({}), (Messages{0}));
  EXPECT_EQ(select({{0, 1}}), (Messages{0, 1, 2, 3}));
  EXPECT_EQ(select({{1, 1}}), (Messages{0, 2, 4, 5}));
  EXPECT_EQ(select({{2, 1}}), (Messages{0, 2, 4, 6, 7}));
  EXPECT_EQ(select({{3, 9}}), (Messages{0, 4, 6, 8, 9}));
  EXPECT_EQ(select({{0, 1}, {3, 1}}), (Messages{0, 1, 2, 3, 4, 6, 8, 9}));
  EXPECT_EQ(select({{0, 4}}), (Messages{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(select({{7, 1}}), (Messages{0}));
}

}  // namespace
}  // namespace crossdock::session
