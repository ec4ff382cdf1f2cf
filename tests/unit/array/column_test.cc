#include "crossdock/array/column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "crossdock/array/column_type.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/batches.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::ArrayTest;
using test::field;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::number_batch;

// A view is used as the ranges of the standard library are.
static_assert(std::ranges::random_access_range<Column<double>>);
static_assert(std::ranges::sized_range<Column<double>>);
static_assert(std::ranges::view<Column<double>>);
static_assert(std::ranges::random_access_range<Column<std::string_view>>);
static_assert(std::ranges::random_access_range<Column<ListOf<std::int32_t>>>);
static_assert(std::is_same_v<std::ranges::range_value_t<Column<bool>>, Element<bool>>);
static_assert(std::is_convertible_v<Element<double>, std::optional<double>>);
// Types that columns don't have are refused before anything is read.
static_assert(ColumnElement<ListOf<Dictionary<std::string_view>>>);
static_assert(!ColumnElement<long double> && !ColumnElement<char> && !ColumnElement<std::string>);
static_assert(!ColumnElement<ListOf<std::string>>);

class Columns : public ArrayTest {
 protected:
  static RecordBatch made(const std::vector<Field>& fields, std::int64_t length, std::int64_t offset) {
    ArrowDeviceArray array = test::on_host(test::make_struct(fields, length, offset, true));
    return import_batch(std::make_shared<Schema>(fields), &array);
  }
  static Field timestamp(TimeUnit unit, const std::string& timezone) {
    Field column = field("when", TypeId::kTimestamp);
    column.type.unit = unit;
    column.type.timezone = timezone;
    return column;
  }
};

/// Compares all ways to read the elements with those of ColumnView.
template <class T, class Expected>
void expect_elements(const Column<T>& column, const Expected& expected) {
  ASSERT_EQ(column.size(), column.view().length());
  EXPECT_EQ(column.null_count(), column.view().null_count());
  std::int64_t i = 0;
  for (const auto element : column) {
    EXPECT_EQ(element.has_value(), column.view().is_valid(i));
    EXPECT_EQ(column.is_valid(i), column.view().is_valid(i));
    EXPECT_TRUE(column[i] == element);
    EXPECT_TRUE(column.begin()[i] == element);
    if (element.has_value()) {
      EXPECT_TRUE(*element == expected(column.view(), i)) << "element " << i;
      EXPECT_TRUE(column.value(i) == *element);
    }
    ++i;
  }
  EXPECT_EQ(i, column.size());
}

TEST_F(Columns, AreNumbers) {
  for (const std::int64_t offset : {0, 3}) {
    const RecordBatch batch = made({field("d", TypeId::kFloat64), field("u", TypeId::kUInt8)}, 15, offset);
    const auto doubles = batch.column<double>("d");
    const auto bytes = batch.column<std::uint8_t>(1);
    // Values that were made up may be NaN.
    const auto number = [](const ColumnView& view, std::int64_t i) { return view.value<std::uint8_t>(i); };
    expect_elements(bytes, number);
    ASSERT_EQ(doubles.values().size(), 15u);
    for (std::int64_t i = 0; i < 15; ++i) {
      const auto value = doubles.view().value<std::uint64_t>(i);
      EXPECT_EQ(std::memcmp(&doubles.values()[static_cast<std::size_t>(i)], &value, sizeof value), 0);
    }
    EXPECT_EQ(static_cast<const void*>(bytes.values().data()),
              static_cast<const std::byte*>(batch.buffers[3].data) + batch.nodes[1].offset);
    const auto part = bytes.slice(4, 7);
    expect_elements(part, number);
    EXPECT_EQ(part.values().data(), bytes.values().data() + 4);
    expect_elements(part.slice(7, 0), number);
  }
}

TEST_F(Columns, AreBoolsTextsAndBinaries) {
  Field fixed = field("fixed", TypeId::kFixedSizeBinary);
  fixed.type.fixed_size = 3;
  for (const std::int64_t offset : {0, 3}) {
    const RecordBatch batch = made(
        {field("flag", TypeId::kBool), field("text", TypeId::kUtf8), field("large", TypeId::kLargeUtf8),
         field("view", TypeId::kUtf8View), field("bytes", TypeId::kBinary), field("view", TypeId::kBinaryView), fixed},
        15, offset);
    expect_elements(batch.column<bool>("flag"), [](const ColumnView& v, std::int64_t i) { return v.boolean(i); });
    expect_elements(batch.column<bool>("flag").slice(5, 9),
                    [](const ColumnView& v, std::int64_t i) { return v.boolean(i); });
    const auto text = [](const ColumnView& view, std::int64_t i) { return view.bytes(i); };
    for (const std::size_t column : {1u, 2u, 3u}) {
      expect_elements(batch.column<std::string_view>(column), text);
      expect_elements(batch.column<std::string_view>(column).slice(4, 8), text);
    }
    for (const std::size_t column : {4u, 5u, 6u}) {
      const auto binaries = batch.column<std::span<const std::byte>>(column);
      for (std::int64_t i = 0; i < binaries.size(); ++i) {
        if (!binaries[i]) continue;
        const std::string_view expected = binaries.view().bytes(i);
        EXPECT_TRUE(std::ranges::equal(binaries.value(i), std::as_bytes(std::span(expected))));
        EXPECT_EQ(binaries[i]->size(), expected.size());
      }
    }
  }
}

TEST_F(Columns, AreDatesAndTimes) {
  using namespace std::chrono;
  Field time32 = field("time32", TypeId::kTime32);
  time32.type.unit = TimeUnit::kMilli;
  Field time64 = field("time64", TypeId::kTime64);
  time64.type.unit = TimeUnit::kNano;
  Field lasts = field("lasts", TypeId::kDuration);
  lasts.type.unit = TimeUnit::kMicro;
  const RecordBatch batch = made({field("day", TypeId::kDate32), field("day", TypeId::kDate64), time32, time64, lasts,
                                  timestamp(TimeUnit::kNano, "Europe/Zurich"), timestamp(TimeUnit::kSecond, "")},
                                 9, 2);
  expect_elements(batch.column<sys_days>(0),
                  [](const ColumnView& v, std::int64_t i) { return sys_days(days(v.value<std::int32_t>(i))); });
  expect_elements(batch.column<sys_days>(1), [](const ColumnView& v, std::int64_t i) {
    return floor<days>(sys_time<milliseconds>(milliseconds(v.value<std::int64_t>(i))));
  });
  expect_elements(batch.column<TimeOfDay<milliseconds>>(2), [](const ColumnView& v, std::int64_t i) {
    return TimeOfDay<milliseconds>{milliseconds(v.value<std::int32_t>(i))};
  });
  expect_elements(batch.column<TimeOfDay<nanoseconds>>(3).slice(2, 5), [](const ColumnView& v, std::int64_t i) {
    return TimeOfDay<nanoseconds>{nanoseconds(v.value<std::int64_t>(i))};
  });
  expect_elements(batch.column<microseconds>(4),
                  [](const ColumnView& v, std::int64_t i) { return microseconds(v.value<std::int64_t>(i)); });
  expect_elements(batch.column<sys_time<nanoseconds>>(5), [](const ColumnView& v, std::int64_t i) {
    return sys_time<nanoseconds>(nanoseconds(v.value<std::int64_t>(i)));
  });
  expect_elements(batch.column<local_time<seconds>>(6), [](const ColumnView& v, std::int64_t i) {
    return local_time<seconds>(seconds(v.value<std::int64_t>(i)));
  });
  EXPECT_EQ(batch.column<microseconds>(4).values().size(), 9u);
}

TEST_F(Columns, ATimeBefore1970IsOfItsDay) {
  using namespace std::chrono;
  RecordBatch batch = made({field("day", TypeId::kDate64)}, 2, 0);
  static constexpr std::int64_t kTimes[] = {-1, 86'400'001};
  batch.buffers = {{}, {kTimes, sizeof kTimes}};
  const auto day = batch.column<sys_days>("day");
  EXPECT_EQ(day[0], sys_days(days(-1)));
  EXPECT_EQ(day[1], sys_days(days(1)));
}

TEST_F(Columns, AreDecimals) {
  std::vector<Field> fields;
  for (const auto& [id, precision] :
       {std::pair{TypeId::kDecimal32, 9}, std::pair{TypeId::kDecimal64, 18}, std::pair{TypeId::kDecimal128, 38}}) {
    fields.push_back(field("price", id));
    fields.back().type.precision = precision;
    fields.back().type.scale = 2;
  }
  const RecordBatch batch = made(fields, 9, 1);
  expect_elements(batch.column<Int128>(0),
                  [](const ColumnView& v, std::int64_t i) { return Int128{v.value<std::int32_t>(i)}; });
  expect_elements(batch.column<Int128>(1),
                  [](const ColumnView& v, std::int64_t i) { return Int128{v.value<std::int64_t>(i)}; });
  expect_elements(batch.column<Int128>(2), [](const ColumnView& v, std::int64_t i) { return v.value<Int128>(i); });
  EXPECT_EQ(batch.column<Int128>(0).field().type.scale, 2);
}

TEST_F(Columns, AreListsOfColumns) {
  for (const std::int64_t offset : {0, 2}) {
    const RecordBatch batch =
        made({field("list", TypeId::kList, {field("item", TypeId::kInt32)}),
              field("large", TypeId::kLargeList, {field("item", TypeId::kInt32)}),
              field("view", TypeId::kListView, {field("item", TypeId::kInt32)}),
              test::fixed_size_list("three", 3, field("item", TypeId::kInt32)),
              field("deep", TypeId::kList, {field("item", TypeId::kLargeList, {field("item", TypeId::kUtf8)})})},
             15, offset);
    std::int64_t seen = 0;
    for (const std::size_t which : {0u, 1u, 2u, 3u}) {
      const auto lists = batch.column<ListOf<std::int32_t>>(which);
      for (std::int64_t i = 0; i < lists.size(); ++i) {
        ASSERT_EQ(lists[i].has_value(), lists.view().is_valid(i));
        if (!lists[i]) continue;
        const ElementRange range = lists.view().elements(i);
        const Column<std::int32_t> list = *lists[i];
        ASSERT_EQ(list.size(), range.length);
        const ColumnView all = lists.view().child(0);
        for (std::int64_t k = 0; k < list.size(); ++k, ++seen) {
          ASSERT_EQ(list.is_valid(k), all.is_valid(range.start + k));
          EXPECT_EQ(list.value(k), all.value<std::int32_t>(range.start + k));
        }
        EXPECT_EQ(lists.elements().slice(range.start, range.length).values().data(), list.values().data());
      }
    }
    EXPECT_GT(seen, 20);
    for (const auto element : batch.column<ListOf<std::int32_t>>("list").elements()) seen += element ? 1 : 0;
    EXPECT_GT(seen, 40) << "the elements of a column that is gone are there";
    std::int64_t texts = 0;
    for (const auto outer : batch.column<ListOf<ListOf<std::string_view>>>("deep")) {
      if (!outer) continue;
      for (const auto inner : *outer) {
        if (!inner) continue;
        for (const auto text : *inner) texts += text ? 1 : 0;
      }
    }
    EXPECT_GT(texts, 5);
  }
}

TEST_F(Columns, AreDictionariesAndTheirValues) {
  const RecordBatch batch =
      made({test::dictionary_of("word", TypeId::kInt8, field("", TypeId::kUtf8)),
            field("words", TypeId::kList, {test::dictionary_of("item", TypeId::kUInt16, field("", TypeId::kBinary))})},
           15, 1);
  const auto words = batch.column<Dictionary<std::string_view>>("word");
  for (std::int64_t i = 0; i < words.size(); ++i) {
    if (!words.is_valid(i)) {
      EXPECT_TRUE(words[i] == std::nullopt);
      continue;
    }
    EXPECT_EQ(words.index(i), words.view().index_of_value(i));
    EXPECT_TRUE(words[i] == words.dictionary()[words.index(i)]);
  }
  for (const auto list : batch.column<ListOf<Dictionary<std::span<const std::byte>>>>(1)) {
    if (list) {
      EXPECT_LE(list->null_count(), list->size());
    }
  }
}

TEST_F(Columns, OfNullsAloneNeedNoDictionary) {
  RecordBatch batch = made({test::dictionary_of("word", TypeId::kInt8, field("", TypeId::kUtf8))}, 3, 0);
  static const std::uint8_t kNone = 0;
  batch.buffers[0] = {&kNone, 1};
  batch.nodes[0].null_count = 3;
  batch.dictionaries[0] = nullptr;
  check_structure(batch);
  const auto words = batch.column<Dictionary<std::string_view>>(0);
  EXPECT_TRUE(words[0] == std::nullopt);
  EXPECT_THROW(static_cast<void>(words.dictionary()), InvalidDataError);
  EXPECT_THROW(static_cast<void>(words.value(0)), InvalidDataError);
}

TEST_F(Columns, AreRangesForAlgorithms) {
  const RecordBatch batch = number_batch(10, 100);
  const auto numbers = batch.column<std::int64_t>("number");
  EXPECT_EQ(std::ranges::count_if(numbers, [](const auto& n) { return *n % 2 == 0; }), 50);
  EXPECT_EQ((std::ranges::find(numbers, Element<std::int64_t>(42)) - numbers.begin()), 32);
  EXPECT_EQ(*std::ranges::lower_bound(numbers, 60, {}, [](const auto& n) { return *n; }), 60);
#if !defined(__clang__) || __clang_major__ >= 16  // older ones can't compile the views of libstdc++
  std::vector<std::int64_t> tens;
  for (const auto n :
       batch.column<std::int64_t>("number") | std::views::filter([](const auto& e) { return *e % 10 == 0; })) {
    tens.push_back(*n);
  }
  EXPECT_EQ(tens.size(), 10u);
#endif
  EXPECT_EQ(batch.column<std::string_view>("text")[3].value_or("none"), "13");
  const std::optional<std::string_view> text = batch.column<std::string_view>("text")[0];
  EXPECT_EQ(text, "10");
}

TEST_F(Columns, AnotherTypeIsAnErrorThatNamesIt) {
  const RecordBatch batch =
      made({field("celsius", TypeId::kFloat32), field("lists", TypeId::kList, {field("item", TypeId::kBool)}),
            test::dictionary_of("word", TypeId::kInt8, field("", TypeId::kUtf8)), timestamp(TimeUnit::kMicro, ""),
            field("pair", TypeId::kStruct)},
           3, 0);
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { static_cast<void>(batch.column<double>("celsius")); }),
            "column \"celsius\" is of type float32, and was asked for as double; ask for float");
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { static_cast<void>(batch.column<ListOf<double>>("lists")); }),
              AllOf(HasSubstr("asked for as array::ListOf<double>"), HasSubstr("ask for array::ListOf<bool>")));
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { static_cast<void>(batch.column<std::string_view>("word")); }),
      AllOf(HasSubstr("dictionary<utf8, indices int8>"), HasSubstr("ask for array::Dictionary<std::string_view>")));
  EXPECT_THROW(static_cast<void>(batch.column<std::int8_t>("word")), InvalidArgumentError);
  EXPECT_THAT(message_of<InvalidArgumentError>(
                  [&] { static_cast<void>(batch.column<std::chrono::sys_time<std::chrono::microseconds>>("when")); }),
              HasSubstr("ask for std::chrono::local_time<std::chrono::microseconds>"));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { static_cast<void>(batch.column<double>("pair")); }),
              HasSubstr("array::ColumnView reads it"));
  EXPECT_THAT(message_of<NotFoundError>([&] { static_cast<void>(batch.column<double>("celcius")); }),
              HasSubstr("\"celsius\""));
  EXPECT_THROW(static_cast<void>(batch.column<double>(9)), InvalidArgumentError);
}

TEST_F(Columns, EveryTypeHasANameOrNone) {
  for (const Field& column : test::every_type()) {
    const std::string name = cpp_type_name(column);
    EXPECT_EQ(name.find("<>"), std::string::npos) << name;
  }
  EXPECT_EQ(cpp_type_name(field_of<ListOf<Dictionary<std::string_view>>>("")),
            "array::ListOf<array::Dictionary<std::string_view>>");
  EXPECT_EQ(cpp_type_name(field_of<TimeOfDay<std::chrono::seconds>>("")), "array::TimeOfDay<std::chrono::seconds>");
  EXPECT_EQ(cpp_type_name(field_of<std::chrono::local_time<std::chrono::nanoseconds>>("")),
            "std::chrono::local_time<std::chrono::nanoseconds>");
}

TEST_F(Columns, IndicesAreChecked) {
  const RecordBatch batch = number_batch(0, 6);
  const auto numbers = batch.column<std::int64_t>("number");
  for (const std::int64_t index : {std::int64_t{-1}, std::int64_t{6}, INT64_MIN, INT64_MAX}) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { static_cast<void>(numbers[index]); }),
                HasSubstr("out of range: the column has 6"));
    EXPECT_THROW(static_cast<void>(numbers.value(index)), InvalidArgumentError);
    EXPECT_THROW(static_cast<void>(numbers.is_valid(index)), InvalidArgumentError);
  }
  EXPECT_THROW(static_cast<void>(numbers.slice(3, 4)), InvalidArgumentError);
}

TEST_F(Columns, BuffersThatAreTooSmallAreErrors) {
  const auto refused = [](RecordBatch batch, std::size_t buffer, std::int64_t size) {
    batch.buffers[buffer].size = size;
    EXPECT_THROW(static_cast<void>(batch.column<std::int64_t>("number")), InvalidDataError) << buffer << ' ' << size;
  };
  const RecordBatch good = number_batch(0, 6);
  refused(good, 1, 47);
  refused(good, 1, 0);
  RecordBatch batch = good;
  batch.buffers[3].size = 27;
  EXPECT_THROW(static_cast<void>(batch.column<std::string_view>("text")), InvalidDataError);
  batch = good;
  static const std::uint8_t kBits = 0xff;
  batch.buffers[0] = {&kBits, 0};
  EXPECT_THROW(static_cast<void>(batch.column<std::int64_t>("number")), InvalidDataError);
  batch = good;
  for (const auto& [length, offset] :
       {std::pair{INT64_MAX, std::int64_t{1}}, std::pair{std::int64_t{-1}, std::int64_t{0}},
        std::pair{std::int64_t{6}, INT64_MAX}, std::pair{std::int64_t{6}, std::int64_t{1}}}) {
    batch.nodes[0] = {.length = length, .offset = offset};
    EXPECT_THROW(static_cast<void>(batch.column<std::int64_t>("number")), InvalidDataError);
  }
  batch = good;
  batch.buffers[1] = {nullptr, 48};
  EXPECT_THROW(static_cast<void>(batch.column<std::int64_t>("number")), InvalidDataError);
  batch = good;
  batch.buffers[1] = {static_cast<const std::byte*>(good.buffers[1].data) + 4, 44};
  batch.nodes[0].length = 5;
  EXPECT_THAT(message_of<InvalidDataError>([&] { static_cast<void>(batch.column<std::int64_t>("number")); }),
              HasSubstr("aligned"));
}

TEST_F(Columns, MemoryThatChangesIsCheckedAtEachAccess) {
  const RecordBatch batch = number_batch(0, 6);
  auto* const offsets = static_cast<std::int32_t*>(const_cast<void*>(batch.buffers[3].data));
  const auto texts = batch.column<std::string_view>("text");
  EXPECT_EQ(texts[3], "3");
  for (const std::int32_t wrong : {-1, INT32_MAX, INT32_MIN}) {
    offsets[3] = wrong;
    EXPECT_THAT(message_of<InvalidDataError>([&] { static_cast<void>(texts[3]); }), HasSubstr("element 3 is damaged"));
  }
}

TEST_F(Columns, MemoryOfADeviceSaysWhatToCall) {
  RecordBatch batch = number_batch(0, 6);
  batch.device = {device::DeviceType::kCuda, 0};
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { static_cast<void>(batch.column<std::int64_t>("number")); }),
              HasSubstr("host"));
}

}  // namespace
}  // namespace crossdock::array
