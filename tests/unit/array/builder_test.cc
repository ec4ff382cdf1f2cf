#include "crossdock/array/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/array/column.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The elements as optionals, for comparisons.
template <class T>
std::vector<std::optional<typename Column<T>::Value>> elements(const Column<T>& column) {
  return {column.begin(), column.end()};
}

template <class T>
std::vector<std::optional<T>> values(std::initializer_list<std::optional<T>> list) {
  return list;
}

TEST(Builders, MakeColumnsOfEveryType) {
  using namespace std::chrono;
  BatchBuilder builder;
  auto& number = builder.add<std::int16_t>("number");
  auto& flag = builder.add<bool>("flag");
  auto& text = builder.add<std::string_view>("text");
  auto& bytes = builder.add<std::span<const std::byte>>("bytes");
  auto& day = builder.add<sys_days>("day");
  auto& when = builder.add<sys_time<microseconds>>("when");
  auto& local = builder.add<local_time<seconds>>("local");
  auto& lasts = builder.add<nanoseconds>("lasts");
  auto& at = builder.add<TimeOfDay<milliseconds>>("at");
  auto& price = builder.add<Int128>("price", {.id = TypeId::kDecimal128, .precision = 38, .scale = 2});
  auto& word = builder.add<Dictionary<std::string_view>>("word");
  auto& lists = builder.add<ListOf<std::int32_t>>("lists");
  auto& deep = builder.add<ListOf<ListOf<Dictionary<std::string_view>>>>("deep");

  const std::array<std::byte, 2> two{std::byte{1}, std::byte{2}};
  number.append(std::int16_t{-7});
  flag.append(true);
  text.append("ab");
  bytes.append(two);
  day.append(sys_days(2026y / November / 28));
  when.append(sys_time<microseconds>(microseconds(5)));
  local.append(local_time<seconds>(6s));
  lasts.append(7ns);
  at.append({8ms});
  price.append(Int128{1234});
  word.append("x");
  lists.append(std::vector{1, 2});
  deep.elements().append(std::vector<std::string>{"x", "y"});
  deep.elements().append(std::vector<std::string>{});
  deep.append_list();
  for (AnyColumnBuilder* const column : std::initializer_list<AnyColumnBuilder*>{
           &number, &flag, &text, &bytes, &day, &when, &local, &lasts, &at, &price, &word, &lists, &deep}) {
    column->append_null();
  }
  number.append(std::optional<std::int16_t>(9));
  flag.append(std::optional<bool>(false));
  text.append(std::string("cde"));
  bytes.append(std::nullopt);
  day.append(sys_days{});
  when.append(std::nullopt);
  local.append(local_time<seconds>{});
  lasts.append(nanoseconds::max());
  at.append({0ms});
  price.append(-(Int128{1} << 100));
  word.append(std::string("x"));
  lists.elements().append(3);
  lists.elements().append_null();
  lists.append_list();
  deep.append_list();
  EXPECT_EQ(number.size(), 3);
  EXPECT_EQ(when.null_count(), 2);

  const RecordBatch batch = builder.finish();
  check_full(batch);
  EXPECT_EQ(batch.num_rows, 3);
  EXPECT_EQ(elements(batch.column<std::int16_t>("number")), values<std::int16_t>({-7, std::nullopt, 9}));
  EXPECT_EQ(elements(batch.column<bool>("flag")), values<bool>({true, std::nullopt, false}));
  EXPECT_EQ(elements(batch.column<std::string_view>("text")), values<std::string_view>({"ab", std::nullopt, "cde"}));
  EXPECT_EQ(batch.column<std::span<const std::byte>>("bytes")[0]->size(), 2u);
  EXPECT_EQ(batch.column<std::span<const std::byte>>("bytes").null_count(), 2);
  EXPECT_EQ(batch.column<sys_days>("day")[0], sys_days(2026y / November / 28));
  EXPECT_EQ(batch.column<sys_time<microseconds>>("when")[0]->time_since_epoch(), 5us);
  EXPECT_EQ(batch.schema->fields()[5].type.timezone, "UTC");
  EXPECT_EQ(batch.column<local_time<seconds>>("local")[0]->time_since_epoch(), 6s);
  EXPECT_EQ(batch.column<nanoseconds>("lasts")[2], nanoseconds::max());
  EXPECT_EQ(batch.column<TimeOfDay<milliseconds>>("at")[0]->since_midnight, 8ms);
  EXPECT_TRUE(batch.column<Int128>("price")[2] == -(Int128{1} << 100));
  EXPECT_EQ(batch.schema->fields()[9].type.scale, 2);
  const auto words = batch.column<Dictionary<std::string_view>>("word");
  EXPECT_EQ(words.dictionary().size(), 1) << "each value once";
  EXPECT_EQ(elements(words), values<std::string_view>({"x", std::nullopt, "x"}));
  const auto numbers = batch.column<ListOf<std::int32_t>>("lists");
  EXPECT_EQ(elements(*numbers[0]), values<std::int32_t>({1, 2}));
  EXPECT_TRUE(numbers[1] == std::nullopt);
  EXPECT_EQ(elements(*numbers[2]), values<std::int32_t>({3, std::nullopt}));
  const auto nested = batch.column<ListOf<ListOf<Dictionary<std::string_view>>>>("deep");
  ASSERT_EQ(nested[0]->size(), 2);
  EXPECT_EQ(elements(*(*nested[0])[0]), values<std::string_view>({"x", "y"}));
  EXPECT_EQ(nested[2]->size(), 0);
}

TEST(Builders, TakeListsOfOtherColumns) {
  BatchBuilder builder;
  auto& lists = builder.add<ListOf<ListOf<std::int32_t>>>("lists");
  lists.append(std::vector{std::vector{1, 2}, std::vector<int>{}});
  lists.append(std::nullopt);
  lists.append(std::vector{std::optional(std::vector{3}), std::optional<std::vector<int>>()});
  const RecordBatch first = builder.finish();
  for (const auto list : first.column<ListOf<ListOf<std::int32_t>>>("lists")) lists.append(list);
  const RecordBatch second = builder.finish();
  check_full(second);
  for (const RecordBatch* const batch : {&first, &second}) {
    const auto column = batch->column<ListOf<ListOf<std::int32_t>>>("lists");
    ASSERT_EQ(column.size(), 3);
    EXPECT_EQ(elements(*(*column[0])[0]), values<std::int32_t>({1, 2}));
    EXPECT_EQ((*column[0])[1]->size(), 0);
    EXPECT_FALSE(column[1]);
    EXPECT_EQ(elements(*(*column[2])[0]), values<std::int32_t>({3}));
    EXPECT_FALSE((*column[2])[1]);
  }
}

TEST(Builders, RefuseElementsInNoList) {
  BatchBuilder builder;
  auto& lists = builder.add<ListOf<ListOf<std::int32_t>>>("lists");
  lists.append(std::vector<std::vector<int>>{{1}});
  lists.elements().elements().append(2);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { builder.finish(); }),
              AllOf(HasSubstr("\"item\""), HasSubstr("last 1 elements"), HasSubstr("append_list()")));
  lists.elements().append_list();
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { builder.finish(); }), HasSubstr("field \"lists\""));
  lists.append_list();
  const RecordBatch batch = builder.finish();
  EXPECT_EQ(elements(*(*batch.column<ListOf<ListOf<std::int32_t>>>("lists")[1])[0]), values<std::int32_t>({2}));
  lists.append(std::vector<std::vector<int>>{});
  EXPECT_EQ(builder.finish().num_rows, 1) << "a batch begins anew";
}

TEST(Builders, TellFloatsOfADictionaryApartByTheirBits) {
  BatchBuilder builder;
  auto& column = builder.add<Dictionary<double>>("number");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double number : {nan, 0.0, -0.0, nan, 0.0, -0.0}) column.append(number);
  const RecordBatch batch = builder.finish();
  const auto numbers = batch.column<Dictionary<double>>("number");
  EXPECT_EQ(numbers.dictionary().size(), 3);
  EXPECT_TRUE(std::isnan(numbers.value(3)));
  EXPECT_FALSE(std::signbit(numbers.value(4)));
  EXPECT_TRUE(std::signbit(numbers.value(5)));
}

TEST(Builders, MakeOneBatchAfterAnother) {
  BatchBuilder builder;
  auto& number = builder.add<double>("number");
  auto& word = builder.add<Dictionary<std::string_view>>("word");
  std::shared_ptr<const Schema> schema;
  for (int i = 0; i < 3; ++i) {
    builder.reserve(20);
    for (int k = 0; k < 10 * i; ++k) {
      number.append(k);
      k % 3 == 0 ? word.append_null() : word.append(std::to_string(k % 4));
    }
    const RecordBatch batch = builder.finish();
    check_full(batch);
    EXPECT_EQ(batch.num_rows, 10 * i);
    if (schema) {
      EXPECT_EQ(batch.schema, schema);
    }
    schema = batch.schema;
    if (i == 0) continue;
    EXPECT_EQ(batch.column<double>("number").values()[9], 9);
    EXPECT_EQ(batch.column<Dictionary<std::string_view>>("word")[5], "1");
    EXPECT_EQ(batch.column<Dictionary<std::string_view>>("word")[0], std::nullopt);
  }
  EXPECT_EQ(builder.schema(), schema);
  EXPECT_THROW(builder.add<double>("late"), InvalidArgumentError);
}

TEST(Builders, TakeVectorsWithoutACopy) {
  std::vector<double> celsius{11.5, 12.0, 10.25};
  const double* const where = celsius.data();
  BatchBuilder builder;
  auto& column = builder.add("celsius", std::move(celsius));
  auto& station = builder.add<std::string_view>("station", std::array{"JFK", "LGA", "EWR"});
  const RecordBatch batch = builder.finish();
  EXPECT_EQ(batch.column<double>("celsius").values().data(), where);
  EXPECT_EQ(batch.column<std::string_view>("station")[2], "EWR");
  check_full(batch);

  column.append(std::vector{1.0, 2.0});
  column.append_null();  // moves what was taken
  column.append(std::vector{3.0});
  column.append(std::vector<double>{});
  column.append(std::span<const double>(batch.column<double>("celsius").values()));
  EXPECT_EQ(column.size(), 7);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { builder.finish(); }),
              AllOf(HasSubstr("\"celsius\" has 7 elements"), HasSubstr("\"station\" has 0")));
  EXPECT_EQ(column.size(), 7) << "nothing has changed";
  for (int i = 0; i < 7; ++i) station.append("");
  const RecordBatch next = builder.finish();
  EXPECT_EQ(elements(next.column<double>("celsius")), values<double>({1, 2, std::nullopt, 3, 11.5, 12, 10.25}));
}

TEST(Builders, MarkNullsWhereverTheyBegin) {
  for (const std::int64_t first : {0, 1, 7, 8, 9, 64, 1000}) {
    BatchBuilder builder;
    auto& number = builder.add<std::int8_t>("number");
    auto& flag = builder.add<bool>("flag");
    number.append(std::vector<std::int8_t>(static_cast<std::size_t>(first), 1));
    for (std::int64_t i = 0; i < first; ++i) flag.append(i % 3 == 0);
    for (int i = 0; i < 20; ++i) {
      number.append_null();
      i % 2 == 0 ? flag.append_null() : flag.append(true);
      number.append(std::vector<std::int8_t>(static_cast<std::size_t>(i), 2));
      for (int k = 0; k < i; ++k) flag.append(std::nullopt);
    }
    const RecordBatch batch = builder.finish();
    check_full(batch);
    const auto numbers = batch.column<std::int8_t>("number");
    EXPECT_EQ(numbers.null_count(), 20);
    std::int64_t nulls = 0;
    for (std::int64_t i = 0; i < numbers.size(); ++i) {
      nulls += numbers[i] ? 0 : 1;
      if (numbers[i]) {
        EXPECT_EQ(*numbers[i], i < first ? 1 : 2);
      }
    }
    EXPECT_EQ(nulls, 20);
    EXPECT_EQ(batch.column<bool>("flag").null_count(), 10 + 190);
  }
}

TEST(Builders, BuildInAnArena) {
  const auto arena = std::make_shared<device::Arena>(std::uint64_t{16} << 20);
  BatchBuilder builder(arena);
  auto& number = builder.add<std::int64_t>("number");
  auto& word = builder.add<Dictionary<std::string_view>>("word");
  auto& list = builder.add<ListOf<bool>>("list");
  builder.reserve(1000);
  for (int i = 0; i < 1000; ++i) {
    number.append(i);
    i % 7 == 0 ? word.append_null() : word.append(std::to_string(i % 10));
    list.append(std::vector<bool>{true, false});
  }
  builder.add("moved", std::vector<double>(1000, 0.5));
  const RecordBatch batch = builder.finish();
  check_full(batch);
  const auto inside = [&](const RecordBatch& one) {
    for (const BufferView& buffer : one.buffers) {
      if (buffer.size != 0) {
        EXPECT_TRUE(arena->contains(buffer.data, static_cast<std::uint64_t>(buffer.size)));
      }
    }
  };
  inside(batch);
  inside(*batch.dictionaries[0]);
  EXPECT_EQ(batch.column<std::int64_t>("number")[999], 999);
  static_cast<void>(arena->freeze());
  EXPECT_THROW(number.append(1), ArenaFrozenError);
}

TEST(Builders, TakeIntegersOfOtherTypesThatFit) {
  BatchBuilder builder;
  builder.add<std::int16_t>("small", std::vector<std::int64_t>{-32768, 0, 32767});
  builder.add<std::uint64_t>("large", std::vector<std::int32_t>{0, 1, std::numeric_limits<std::int32_t>::max()});
  builder.add<Dictionary<std::uint8_t>>("coded", std::vector<std::int64_t>{255, 0, 255});
  auto& lists = builder.add<ListOf<std::int8_t>>("lists");
  for (int i = 0; i < 3; ++i) lists.append(std::vector<std::optional<long long>>{-128, std::nullopt, 127});
  auto& decimals = builder.add<std::int64_t>("decimals");
  for (const Int128 digits : {std::numeric_limits<std::int64_t>::min(), std::int64_t{0}, std::int64_t{7}}) {
    decimals.append(Element<Int128>(digits));
  }
  const RecordBatch batch = builder.finish();
  EXPECT_EQ(elements(batch.column<std::int64_t>("decimals")),
            values<std::int64_t>({std::numeric_limits<std::int64_t>::min(), 0, 7}));
  EXPECT_EQ(elements(batch.column<std::int16_t>("small")), values<std::int16_t>({-32768, 0, 32767}));
  EXPECT_EQ(batch.column<std::uint64_t>("large")[2], 2147483647U);
  EXPECT_EQ(batch.column<Dictionary<std::uint8_t>>("coded")[2], 255);
}

TEST(Builders, TakeOnlyIntegersThatAFloatHas) {
  BatchBuilder batch;
  auto& wide = batch.add<double>("wide");
  auto& narrow = batch.add<float>("narrow");
  auto& coded = batch.add<Dictionary<double>>("coded");
  const std::int64_t most = std::int64_t{1} << 53;
  wide.append(most);
  wide.append(std::numeric_limits<std::int64_t>::min());
  wide.append(Int128{1} << 126);
  wide.append(1.5F);
  narrow.append(1 << 24);
  coded.append(-most);
  const auto refused = [](auto&& call, const std::string& text) {
    EXPECT_THAT(message_of<InvalidArgumentError>(call), HasSubstr(text));
  };
  refused([&] { wide.append(most + 1); }, "field \"wide\": 9007199254740993 has more digits than a float64");
  refused([&] { wide.append(std::numeric_limits<std::uint64_t>::max()); }, "18446744073709551615 has more digits");
  refused([&] { wide.append((Int128{1} << 100) + 1); }, "a number of more than 64 bits has more digits");
  refused([&] { narrow.append((1 << 24) + 1); }, "16777217 has more digits than a float32");
  refused([&] { coded.append(-most - 1); }, "-9007199254740993 has more digits than a float64");
  EXPECT_EQ(wide.size(), 4);
}

TEST(Builders, RefuseIntegersOutsideOfTheirRange) {
  BatchBuilder builder;
  const auto refused = [](auto&& call, const char* text) {
    EXPECT_THAT(message_of<InvalidArgumentError>(call), HasSubstr(text));
  };
  refused(
      [&] {
        builder.add<std::int16_t>("small", std::vector<std::int64_t>{1, 70000});
      },
      "field \"small\": 70000 is outside of the range of int16");
  auto& number = builder.add<std::uint32_t>("number");
  refused([&] { number.append(-1); }, "-1 is outside of the range of uint32");
  refused([&] { number.append(std::optional(std::int64_t{1} << 32)); }, "4294967296");
  auto& coded = builder.add<Dictionary<std::int8_t>>("coded");
  refused([&] { coded.append(128); }, "field \"coded\": 128 is outside of the range of int8");
  auto& list = builder.add<ListOf<std::int64_t>>("list");
  refused([&] { list.append(std::vector{std::numeric_limits<std::uint64_t>::max()}); }, "18446744073709551615");
  auto& small = builder.add<std::int8_t>("small of decimals");
  refused([&] { small.append(Int128{128}); }, "128 is outside of the range of int8");
  refused([&] { small.append(std::optional((Int128{1} << 100) + 5)); }, "a number of more than 64 bits is outside");
  refused([&] { number.append(Int128{-1}); }, "-1 is outside of the range of uint32");
  refused([&] { number.append(~crossdock::detail::UInt128{0}); }, "a number of more than 64 bits is outside");
  refused([&] { coded.append(Int128{-129}); }, "-129 is outside of the range of int8");
  auto& decimal = builder.add<Int128>("decimal");
  refused([&] { decimal.append(crossdock::detail::UInt128{1} << 127); }, "a number of more than 64 bits is outside");
  decimal.append(std::numeric_limits<std::uint64_t>::max());
  decimal.append((crossdock::detail::UInt128{1} << 127) - 1);
  EXPECT_EQ(decimal.size(), 2);
  EXPECT_EQ(small.size(), 0);
  EXPECT_EQ(number.size(), 0);
  EXPECT_EQ(coded.size(), 0);
}

TEST(Builders, WriteNothingIntoAnArenaThatWasFrozenMeanwhile) {
  const auto arena = std::make_shared<device::Arena>(std::uint64_t{1} << 20);
  BatchBuilder builder(arena);
  auto& number = builder.add<std::int64_t>("number");
  auto& flag = builder.add<bool>("flag");
  auto& text = builder.add<std::string_view>("text");
  auto& list = builder.add<ListOf<double>>("list");
  auto& word = builder.add<Dictionary<std::string_view>>("word");
  const auto append = [&] {
    number.append(1);
    flag.append_null();
    text.append("a");
    list.append(std::vector<double>{0.5});
    word.append("a");
  };
  append();
  append();
  static_cast<void>(arena->freeze());  // published by another builder, say; all buffers have room left
  EXPECT_THROW(number.append(2), ArenaFrozenError);
  EXPECT_THROW(number.append(std::vector<std::int64_t>{2}), ArenaFrozenError);
  EXPECT_THROW(flag.append(true), ArenaFrozenError);
  EXPECT_THROW(flag.append_null(), ArenaFrozenError);
  EXPECT_THROW(text.append("b"), ArenaFrozenError);
  EXPECT_THROW(text.append_null(), ArenaFrozenError);
  EXPECT_THROW(list.append(std::vector<double>{0.5}), ArenaFrozenError);
  EXPECT_THROW(list.append_list(), ArenaFrozenError);
  EXPECT_THROW(word.append("a"), ArenaFrozenError);
  EXPECT_THROW(word.append("b"), ArenaFrozenError);
  EXPECT_EQ(number.size(), 2);
  EXPECT_EQ(builder.finish().num_rows, 2) << "what was there before is still a batch";
}

TEST(Builders, BatchesKeepTheirMemory) {
  std::optional<RecordBatch> batch;
  {
    BatchBuilder builder(std::make_shared<device::Arena>(std::uint64_t{1} << 20));
    builder.add<std::string_view>("text", std::vector<std::string>(100, "of a hundred"));
    batch = builder.finish();
  }
  EXPECT_EQ(batch->column<std::string_view>("text")[99], "of a hundred");
}

TEST(Builders, WithoutColumnsOrRowsWork) {
  EXPECT_EQ(BatchBuilder().finish().num_rows, 0);
  BatchBuilder builder;
  builder.add<std::string_view>("text");
  builder.add<ListOf<bool>>("list");
  builder.add<Dictionary<std::int64_t>>("number");
  const RecordBatch batch = builder.finish();
  check_full(batch);
  EXPECT_TRUE(batch.column<std::string_view>("text").empty());
  EXPECT_TRUE(batch.column<ListOf<bool>>("list").empty());
  EXPECT_TRUE(batch.column<Dictionary<std::int64_t>>("number").empty());
}

TEST(Builders, RefuseWhatTheyCannotBuild) {
  BatchBuilder builder;
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { builder.add<std::string_view>("text", {.id = TypeId::kLargeUtf8}); }),
      AllOf(HasSubstr("field \"text\""), HasSubstr("large_utf8")));
  EXPECT_THROW(builder.add<double>("number", {.id = TypeId::kFloat32}), InvalidArgumentError);
  using Local = std::chrono::local_time<std::chrono::seconds>;
  EXPECT_THROW(builder.add<Local>("when", {.id = TypeId::kTimestamp, .timezone = "UTC"}), InvalidArgumentError);
  using Instant = std::chrono::sys_time<std::chrono::seconds>;
  builder.add<Instant>("when", {.id = TypeId::kTimestamp, .timezone = "Europe/Berlin"}).append(Instant{});
  auto& text = builder.add<std::string_view>("text");
  // The length is checked before the bytes are read.
  EXPECT_THROW(text.append(std::string_view("x", std::size_t{1} << 31)), ResourceError);
  text.append("x");
  const RecordBatch batch = builder.finish();
  EXPECT_EQ(batch.column<std::string_view>("text")[0], "x");
}

TEST(Builders, RoomThatNobodyHasIsAnError) {
  BatchBuilder builder;
  for (AnyColumnBuilder* const column : std::initializer_list<AnyColumnBuilder*>{
           &builder.add<double>("number"), &builder.add<bool>("flag"), &builder.add<std::string_view>("text"),
           &builder.add<Dictionary<std::string_view>>("word"), &builder.add<ListOf<int>>("list")}) {
    EXPECT_THROW(column->reserve(-1), InvalidArgumentError) << column->field().name;
    for (const std::int64_t count : {std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 61}) {
      EXPECT_THROW(column->reserve(count), ResourceError) << column->field().name;
    }
  }
}

}  // namespace
}  // namespace crossdock::array
