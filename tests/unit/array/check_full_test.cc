#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::ArrayTest;
using test::Bytes;
using test::bytes_of;
using test::dictionary_of;
using test::field;
using test::run_end_encoded;
using test::text_bytes;
using test::union_of;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 8;

class CheckFull : public ArrayTest {
 protected:
  /// A batch of one column with these buffers, put together by hand; null is an absent one.
  RecordBatch column(Field of, std::int64_t length, std::vector<std::optional<Bytes>> buffers,
                     std::vector<Node> children = {}, std::vector<std::int64_t> variadic_counts = {}) {
    RecordBatch batch;
    batch.schema = std::make_shared<Schema>(std::vector<Field>{std::move(of)});
    batch.num_rows = length;
    batch.nodes.push_back({length, 0, 0});
    batch.nodes.insert(batch.nodes.end(), children.begin(), children.end());
    for (std::optional<Bytes>& buffer : buffers) {
      if (!buffer) {
        batch.buffers.emplace_back();
        continue;
      }
      const Bytes& kept = memory_.emplace_back(*std::move(buffer));
      batch.buffers.push_back({kept.data(), static_cast<std::int64_t>(kept.size())});
    }
    batch.variadic_counts = std::move(variadic_counts);
    batch.dictionaries.resize(batch.schema->dictionaries().size());
    return batch;
  }

  static std::string refused(const RecordBatch& batch) {
    check_structure(batch);  // What is wrong is not of the structure.
    return message_of<InvalidDataError>([&] { check_full(batch); });
  }

 private:
  std::deque<Bytes> memory_;
};

TEST_F(CheckFull, PassesEverySliceOfEveryType) {
  const std::vector<Field> fields = test::every_type();
  const auto schema = std::make_shared<Schema>(fields);
  for (const std::int64_t start : {0, 1, 9}) {
    for (const std::int64_t rows : {0, 1, 30}) {
      for (const std::int64_t inner : {0, 3}) {
        ArrowDeviceArray array = test::on_host(test::make_struct(fields, start + rows + 2, inner, inner == 0));
        array.array.offset = start;
        array.array.length = rows;
        RecordBatch batch = import_batch(schema, &array);
        check_full(batch);
        std::int64_t copied = 0;
        check_full(normalized(batch, &copied));
        check_full(normalized(std::move(batch), &copied, Offsets::kFromZero));
      }
    }
  }
}

TEST_F(CheckFull, ChecksTheStructureFirst) {
  RecordBatch batch = column(field("i", TypeId::kInt32), 2, {std::nullopt, bytes_of<std::int32_t>({1})});
  EXPECT_THAT(message_of<InvalidDataError>([&] { check_full(batch); }), HasSubstr("data buffer has 4 bytes"));
}

TEST_F(CheckFull, NeedsMemoryThatItCanRead) {
  RecordBatch batch = column(field("i", TypeId::kInt8), 1, {std::nullopt, bytes_of<std::int8_t>({1})});
  batch.device = {.type = device::DeviceType::kCuda, .id = 0};
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { check_full(batch); }), HasSubstr("the batch is on cuda:0"));
}

TEST_F(CheckFull, NullCountsAreTheBitmaps) {
  RecordBatch batch =
      column(field("i", TypeId::kInt8), 3, {bytes_of<std::uint8_t>({0b101}), bytes_of<std::int8_t>({1, 2, 3})});
  for (const std::int64_t wrong : {0, 2, 3}) {
    batch.nodes[0].null_count = wrong;
    EXPECT_THAT(refused(batch), HasSubstr("field \"i\": null count " + std::to_string(wrong) +
                                          ", but its validity marks 1 element as null"));
  }
  for (const std::int64_t right : {1, -1}) {
    batch.nodes[0].null_count = right;
    check_full(batch);
  }
}

TEST_F(CheckFull, OffsetsAreInOrder) {
  const Field item = field("item", TypeId::kNull);
  const Field entries = field("entries", TypeId::kStruct, {field("key", TypeId::kNull), field("value", TypeId::kNull)});
  const Bytes back = bytes_of<std::int32_t>({0, 3, 2, 4});
  const Bytes far = bytes_of<std::int32_t>({0, 1 << 30, 2, 4});
  const Bytes negative = bytes_of<std::int32_t>({0, -5, 2, 4});
  const Bytes good = bytes_of<std::int32_t>({0, 0, 2, 4});
  for (const TypeId id : {TypeId::kUtf8, TypeId::kBinary}) {
    const auto with = [&](const Bytes& offsets) {
      return column(field("x", id), 3, {std::nullopt, offsets, text_bytes("abcd")});
    };
    EXPECT_THAT(refused(with(back)), HasSubstr("field \"x\": element 1: its offsets run from 3 to 2"));
    EXPECT_THAT(refused(with(far)), HasSubstr("element 1: its offsets run from 1073741824 to 2"));
    EXPECT_THAT(refused(with(negative)), HasSubstr("element 0: its offsets run from 0 to -5"));
    check_full(with(good));
  }
  EXPECT_THAT(refused(column(field("x", TypeId::kList, {item}), 3, {std::nullopt, back}, {{4, 4, 0}})),
              HasSubstr("field \"x\": element 1"));
  EXPECT_THAT(refused(column(field("x", TypeId::kMap, {entries}), 3, {std::nullopt, back, std::nullopt},
                             {{4, 0, 0}, {4, 4, 0}, {4, 4, 0}})),
              HasSubstr("field \"x\": element 1"));
  const Bytes large = bytes_of<std::int64_t>({0, std::int64_t{1} << 40, 2, 4});
  EXPECT_THAT(refused(column(field("x", TypeId::kLargeList, {item}), 3, {std::nullopt, large}, {{4, 4, 0}})),
              HasSubstr("element 1: its offsets run from 1099511627776 to 2"));
  for (const TypeId id : {TypeId::kLargeUtf8, TypeId::kLargeBinary}) {
    EXPECT_THAT(refused(column(field("x", id), 3, {std::nullopt, large, text_bytes("abcd")})), HasSubstr("element 1"));
  }
}

TEST_F(CheckFull, TextIsUtf8) {
  const auto with = [&](const std::string& text, std::int32_t cut, std::optional<Bytes> validity = {}) {
    RecordBatch batch =
        column(field("t", TypeId::kUtf8), 2,
               {validity, bytes_of<std::int32_t>({0, cut, static_cast<std::int32_t>(text.size())}), text_bytes(text)});
    batch.nodes[0].null_count = validity ? -1 : 0;
    return batch;
  };
  check_full(with("plain text", 4));
  check_full(with("\u2603 and \u00fc", 3));
  check_full(with("\u2603", 3));
  EXPECT_THAT(refused(with("\u2603", 1)), HasSubstr("field \"t\": element 0: it isn't UTF-8"))
      << "a character may not be cut in two";
  EXPECT_THAT(refused(with("abc\xff", 2)), HasSubstr("element 1: it isn't UTF-8"));
  check_full(with("abc\xff", 2, bytes_of<std::uint8_t>({0b01})));
  EXPECT_THAT(refused(with("abc\xff", 2, bytes_of<std::uint8_t>({0b10}))), HasSubstr("element 1"));
  check_full(
      column(field("t", TypeId::kBinary), 1, {std::nullopt, bytes_of<std::int32_t>({0, 1}), text_bytes("\xff")}));
  EXPECT_THAT(refused(column(field("t", TypeId::kLargeUtf8), 1,
                             {std::nullopt, bytes_of<std::int64_t>({0, 1}), text_bytes("\xff")})),
              HasSubstr("UTF-8"));
}

TEST_F(CheckFull, BytesThatNoElementShowsMayBeAnything) {
  check_full(column(field("t", TypeId::kUtf8), 1,
                    {std::nullopt, bytes_of<std::int32_t>({1, 2}),
                     text_bytes("\xff"
                                "a\xff")}));
}

TEST_F(CheckFull, IndicesAreWithinTheirDictionary) {
  const Field values = field("", TypeId::kInt16);
  const auto with = [&](TypeId type, Bytes indices, std::optional<Bytes> validity = {}) {
    RecordBatch batch = column(dictionary_of("d", type, values), 3, {validity, std::move(indices)});
    batch.nodes[0].null_count = validity ? -1 : 0;
    batch.dictionaries[0] =
        std::make_shared<RecordBatch>(column(values, 2, {std::nullopt, bytes_of<std::int16_t>({7, 8})}));
    return batch;
  };
  check_full(with(TypeId::kInt8, bytes_of<std::int8_t>({0, 1, 0})));
  const auto expect = [&](TypeId type, Bytes indices) {
    EXPECT_THAT(refused(with(type, indices)),
                HasSubstr("field \"d\": element 2: its index isn't one of the 2 elements of its dictionary"))
        << static_cast<int>(type);
    check_full(with(type, indices, bytes_of<std::uint8_t>({0b011})));  // Null, so it means nothing.
  };
  expect(TypeId::kInt8, bytes_of<std::int8_t>({0, 1, 2}));
  expect(TypeId::kInt8, bytes_of<std::int8_t>({0, 1, -1}));
  expect(TypeId::kUInt8, bytes_of<std::uint8_t>({0, 1, 255}));
  expect(TypeId::kInt16, bytes_of<std::int16_t>({0, 1, 256}));
  expect(TypeId::kUInt16, bytes_of<std::uint16_t>({0, 1, 65535}));
  expect(TypeId::kInt32, bytes_of<std::int32_t>({0, 1, -7}));
  expect(TypeId::kUInt32, bytes_of<std::uint32_t>({0, 1, 1u << 31}));
  expect(TypeId::kInt64, bytes_of<std::int64_t>({0, 1, std::int64_t{1} << 32}));
  expect(TypeId::kUInt64, bytes_of<std::uint64_t>({0, 1, ~std::uint64_t{0}}));

  RecordBatch none = with(TypeId::kInt8, bytes_of<std::int8_t>({9, 9, 9}), bytes_of<std::uint8_t>({0}));
  none.nodes[0].null_count = 3;
  none.dictionaries[0] = nullptr;
  check_full(none);
}

TEST_F(CheckFull, DictionariesAreCheckedUnlessTrusted) {
  const Field values = field("", TypeId::kList, {field("item", TypeId::kUtf8)});
  RecordBatch batch = column(dictionary_of("d", TypeId::kInt8, values), 1, {std::nullopt, bytes_of<std::int8_t>({0})});
  batch.dictionaries[0] = std::make_shared<RecordBatch>(column(
      values, 1,
      {std::nullopt, bytes_of<std::int32_t>({0, 1}), std::nullopt, bytes_of<std::int32_t>({0, 1}), text_bytes("\x80")},
      {{1, 0, 0}}));
  EXPECT_THAT(refused(batch), HasSubstr("field \"d.dictionary.item\": element 0: it isn't UTF-8"));
  check_full(batch, Dictionaries::kTrust);
}

TEST_F(CheckFull, TypeIdsAreThoseOfChildren) {
  const std::vector<Field> children = {field("a", TypeId::kNull), field("b", TypeId::kNull)};
  const auto sparse = [&](std::initializer_list<std::int8_t> ids) {
    return column(union_of("u", TypeId::kSparseUnion, {0, 5}, children), 3, {bytes_of<std::int8_t>(ids)},
                  {{3, 3, 0}, {3, 3, 0}});
  };
  check_full(sparse({0, 5, 0}));
  for (const int id : {1, 4, 6, 127, -1, -128}) {
    const auto bad = static_cast<std::int8_t>(id);
    EXPECT_THAT(
        refused(sparse({0, bad, 0})),
        HasSubstr("field \"u\": element 1: no child of sparse_union[0, 5] has the type id " + std::to_string(bad)));
  }
}

TEST_F(CheckFull, DenseOffsetsAreWithinTheirChild) {
  const std::vector<Field> children = {field("a", TypeId::kNull), field("b", TypeId::kNull)};
  const auto dense = [&](std::initializer_list<std::int32_t> offsets) {
    return column(union_of("u", TypeId::kDenseUnion, {0, 5}, children), 3,
                  {bytes_of<std::int8_t>({0, 5, 0}), bytes_of<std::int32_t>(offsets)}, {{3, 3, 0}, {1, 1, 0}});
  };
  check_full(dense({0, 0, 2}));
  check_full(dense({2, 0, 2}));
  EXPECT_THAT(refused(dense({2, 0, 1})),
              HasSubstr("field \"u\": element 2: offset 1 into the child with type id 0 after 2"));
  EXPECT_THAT(refused(dense({0, 1, 2})),
              HasSubstr("field \"u\": element 1: offset 1 into the 1 elements of the child with type id 5"));
  EXPECT_THAT(refused(dense({0, 0, 3})), HasSubstr("element 2: offset 3 into the 3 elements"));
  EXPECT_THAT(refused(dense({-1, 0, 2})), HasSubstr("element 0: offset -1"));
}

TEST_F(CheckFull, RunEndsRise) {
  const auto runs = [&](TypeId type, Bytes ends, std::optional<Bytes> validity = {}) {
    RecordBatch batch = column(run_end_encoded("r", type, field("values", TypeId::kNull)), 9,
                               {validity, std::move(ends)}, {{3, validity ? -1 : 0, 0}, {3, 3, 0}});
    return batch;
  };
  check_full(runs(TypeId::kInt32, bytes_of<std::int32_t>({1, 2, 9})));
  check_full(runs(TypeId::kInt32, bytes_of<std::int32_t>({1, 2, 90})));
  EXPECT_THAT(refused(runs(TypeId::kInt32, bytes_of<std::int32_t>({2, 2, 9}))),
              HasSubstr("field \"r.run_ends\": element 1: the run ends at 2, not after 2"));
  EXPECT_THAT(refused(runs(TypeId::kInt16, bytes_of<std::int16_t>({0, 2, 9}))),
              HasSubstr("element 0: the run ends at 0, not after 0"));
  EXPECT_THAT(refused(runs(TypeId::kInt64, bytes_of<std::int64_t>({5, -2, 9}))), HasSubstr("element 1"));
  EXPECT_THAT(refused(runs(TypeId::kInt32, bytes_of<std::int32_t>({1, 2, 9}), bytes_of<std::uint8_t>({0b101}))),
              HasSubstr("field \"r.run_ends\": run ends are null"));
}

/// A view of 16 bytes, by its parts.
Bytes long_view(std::int32_t length, const std::string& prefix, std::int32_t buffer, std::int32_t offset) {
  Bytes out(16);
  store_le(out.data(), length);
  std::memcpy(out.data() + 4, prefix.data(), 4);
  store_le(out.data() + 8, buffer);
  store_le(out.data() + 12, offset);
  return out;
}
Bytes short_view(const std::string& text, const std::string& after = {}) {
  Bytes out(16);
  store_le(out.data(), static_cast<std::int32_t>(text.size()));
  std::memcpy(out.data() + 4, text.data(), text.size());
  std::memcpy(out.data() + 4 + text.size(), after.data(), after.size());
  return out;
}

TEST_F(CheckFull, ViewsLieWithinTheirBuffers) {
  const std::string text = "The quick brown fox jumps";
  const auto with = [&](Bytes view, TypeId id = TypeId::kUtf8View, std::optional<Bytes> validity = {}) {
    RecordBatch batch =
        column(field("v", id), 1, {validity, std::move(view), text_bytes("-"), text_bytes(text)}, {}, {2});
    batch.nodes[0].null_count = validity ? 1 : 0;
    return batch;
  };
  check_full(with(long_view(25, "The ", 1, 0)));
  check_full(with(long_view(21, "quic", 1, 4)));
  const std::vector<std::pair<Bytes, const char*>> bad = {
      {long_view(26, "The ", 1, 0), "26 bytes at 0 of variadic buffer 1, which has 25"},
      {long_view(21, "uick", 1, 5), "21 bytes at 5 of variadic buffer 1, which has 25"},
      {long_view(13, "The ", 0, 0), "variadic buffer 0, which has 1"},
      {long_view(13, "The ", 2, 0), "variadic buffer 2; there are 2"},
      {long_view(13, "The ", -1, 0), "variadic buffer -1; there are 2"},
      {long_view(13, "The ", 1 << 30, 0), "variadic buffer 1073741824; there are 2"},
      {long_view(13, "The ", 1, -1), "13 bytes at -1 of"},
      {long_view(-1, "The ", 1, 0), "-1 bytes at 0"},
      {long_view(std::numeric_limits<std::int32_t>::min(), "The ", 1, 0), "-2147483648 bytes"},
      {long_view(std::numeric_limits<std::int32_t>::max(), "The ", 1, std::numeric_limits<std::int32_t>::max()),
       "2147483647 bytes at 2147483647"},
      {long_view(25, "the ", 1, 0), "the prefix in its view differs from its first bytes"},
  };
  for (const auto& [view, words] : bad) {
    for (const TypeId id : {TypeId::kUtf8View, TypeId::kBinaryView}) {
      EXPECT_THAT(refused(with(view, id)), HasSubstr(std::string("field \"v\": element 0: ")));
      EXPECT_THAT(refused(with(view, id)), HasSubstr(words));
      check_full(with(view, id, bytes_of<std::uint8_t>({0})));  // Null, so it means nothing.
    }
  }
}

TEST_F(CheckFull, ShortViewsEndWithZeros) {
  const auto with = [&](Bytes view, TypeId id = TypeId::kUtf8View) {
    return column(field("v", id), 1, {std::nullopt, std::move(view)}, {}, {0});
  };
  const std::string text = "abcdefghijkl";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    check_full(with(short_view(text.substr(0, length))));
    for (std::size_t at = length; at < text.size(); ++at) {
      const Bytes view = short_view(text.substr(0, length), std::string(at - length, '\0') + "\x01");
      EXPECT_THAT(refused(with(view)), HasSubstr("isn't 0")) << length << " " << at;
      EXPECT_THAT(refused(with(view, TypeId::kBinaryView)), HasSubstr("isn't 0"));
    }
  }
}

TEST_F(CheckFull, ViewsOfTextAreUtf8) {
  const auto with = [&](TypeId id, Bytes view, const std::string& text) {
    return column(field("v", id), 1, {std::nullopt, std::move(view), text_bytes(text)}, {}, {1});
  };
  const std::string bad = "thirteen by\xfftes";
  for (const auto& [view, text] : std::vector<std::pair<Bytes, std::string>>{
           {short_view("\xff"), ""}, {short_view("eleven byt\xc3"), ""}, {long_view(14, "thir", 0, 0), bad}}) {
    EXPECT_THAT(refused(with(TypeId::kUtf8View, view, text)), HasSubstr("field \"v\": element 0: it isn't UTF-8"));
    check_full(with(TypeId::kBinaryView, view, text));
  }
  check_full(with(TypeId::kUtf8View, short_view("\u2603\u00fc"), ""));
  check_full(with(TypeId::kUtf8View, long_view(14, "elev", 0, 0), "eleven by\u2603xx"));
}

TEST_F(CheckFull, ListViewsLieWithinTheirChild) {
  const Field item = field("item", TypeId::kNull);
  const auto with = [&](std::int32_t offset, std::int32_t size) {
    return column(field("l", TypeId::kListView, {item}), 2,
                  {std::nullopt, bytes_of<std::int32_t>({0, offset}), bytes_of<std::int32_t>({5, size})}, {{5, 5, 0}});
  };
  const auto large = [&](std::int64_t offset, std::int64_t size) {
    return column(field("l", TypeId::kLargeListView, {item}), 2,
                  {std::nullopt, bytes_of<std::int64_t>({0, offset}), bytes_of<std::int64_t>({5, size})}, {{5, 5, 0}});
  };
  check_full(with(2, 3));
  check_full(with(5, 0));
  check_full(large(2, 3));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const auto& [offset, size] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {2, 4}, {6, 0}, {-1, 1}, {1, -1}, {kMost, kMost}, {1, kMost}, {kMost, 1}}) {
    EXPECT_THAT(refused(large(offset, size)),
                HasSubstr("field \"l\": element 1: its list has " + std::to_string(size) + " elements from " +
                          std::to_string(offset) + " of the 5 of its child"));
    if (offset == kMost || size == kMost) continue;
    EXPECT_THAT(refused(with(static_cast<std::int32_t>(offset), static_cast<std::int32_t>(size))),
                HasSubstr("element 1"));
  }
}

TEST_F(CheckFull, DecimalsHaveNoMoreDigitsThanTheirPrecision) {
  Field of = field("d", TypeId::kDecimal32);
  of.type.precision = 3;
  of.type.scale = 1;
  const auto with = [&](std::int32_t number, std::optional<Bytes> validity = {}) {
    RecordBatch batch = column(of, 2, {validity, bytes_of<std::int32_t>({999, number})});
    batch.nodes[0].null_count = validity ? 1 : 0;
    return batch;
  };
  check_full(with(-999));
  EXPECT_THAT(refused(with(1000)),
              HasSubstr("field \"d\": element 1: it has more than the 3 digits of decimal32(3, 1)"));
  EXPECT_THAT(refused(with(-1000)), HasSubstr("element 1"));
  check_full(with(1000, bytes_of<std::uint8_t>({0b01})));
}

TEST_F(CheckFull, ADate64IsAWholeNumberOfDays) {
  const auto with = [&](std::int64_t date, std::optional<Bytes> validity = {}) {
    RecordBatch batch = column(field("d", TypeId::kDate64), 2, {validity, bytes_of<std::int64_t>({86'400'000, date})});
    batch.nodes[0].null_count = validity ? 1 : 0;
    return batch;
  };
  for (const std::int64_t date :
       {std::int64_t{0}, std::int64_t{-86'400'000}, std::int64_t{86'400'000} * 106'751'991'167}) {
    check_full(with(date));
    EXPECT_THAT(refused(with(date + 1)), HasSubstr("milliseconds aren't a whole number of days"));
    EXPECT_THAT(refused(with(date - 1)), HasSubstr("field \"d\": element 1: "));
  }
  check_full(with(1, bytes_of<std::uint8_t>({0b01})));
}

TEST_F(CheckFull, ATimeIsWithinADay) {
  const auto expect_a_day = [&]<typename Int>(Int, TypeId id, TimeUnit unit, std::int64_t day) {
    Field of = field("t", id);
    of.type.unit = unit;
    const auto with = [&](std::int64_t time, std::optional<Bytes> validity = {}) {
      RecordBatch batch = column(of, 2, {validity, bytes_of<Int>({0, static_cast<Int>(time)})});
      batch.nodes[0].null_count = validity ? 1 : 0;
      return batch;
    };
    check_full(with(day - 1));
    EXPECT_THAT(refused(with(day)), HasSubstr("element 1: " + std::to_string(day) + " isn't a time of day in time"));
    EXPECT_THAT(refused(with(-1)), HasSubstr("field \"t\": element 1: -1 isn't"));
    check_full(with(day, bytes_of<std::uint8_t>({0b01})));
  };
  expect_a_day(std::int32_t{}, TypeId::kTime32, TimeUnit::kSecond, 86'400);
  expect_a_day(std::int32_t{}, TypeId::kTime32, TimeUnit::kMilli, 86'400'000);
  expect_a_day(std::int64_t{}, TypeId::kTime64, TimeUnit::kMicro, 86'400'000'000);
  expect_a_day(std::int64_t{}, TypeId::kTime64, TimeUnit::kNano, 86'400'000'000'000);
}

TEST_F(CheckFull, AMapHasNoNullEntriesAndNoNullKeys) {
  const Field entries = field("entries", TypeId::kStruct, {field("key", TypeId::kInt8), field("value", TypeId::kInt8)});
  const auto with = [&](int marked, std::int64_t null_count) {
    const Bytes one_null = bytes_of<std::uint8_t>({0b01});
    const auto validity = [&](int node) { return node == marked ? std::optional(one_null) : std::nullopt; };
    std::vector<Node> nodes(3, Node{2, 0, 0});
    if (marked >= 0) nodes[static_cast<std::size_t>(marked)].null_count = null_count;
    return column(field("m", TypeId::kMap, {entries}), 1,
                  {std::nullopt, bytes_of<std::int32_t>({0, 2}), validity(0), validity(1),
                   bytes_of<std::int8_t>({1, 2}), validity(2), bytes_of<std::int8_t>({3, 4})},
                  nodes);
  };
  check_full(with(-1, 0));
  check_full(with(2, 1));
  for (const std::int64_t null_count : {-1, 1}) {
    EXPECT_THAT(refused(with(0, null_count)), HasSubstr("field \"m.entries\": a map's entries are null"));
    EXPECT_THAT(refused(with(1, null_count)), HasSubstr("field \"m.entries.key\": a map's keys are null"));
  }
}

TEST_F(CheckFull, LooksOnlyAtTheElementsThatAreShown) {
  RecordBatch batch = column(field("t", TypeId::kUtf8), 3,
                             {std::nullopt, bytes_of<std::int32_t>({0, 1, 2, 3}),
                              text_bytes("\xff"
                                         "a\xff")});
  EXPECT_THAT(refused(batch), HasSubstr("element 0"));
  batch.num_rows = 1;
  batch.nodes[0] = {1, 0, 1};
  check_full(batch);
  batch.num_rows = 2;
  batch.nodes[0].length = 2;
  EXPECT_THAT(refused(batch), HasSubstr("element 1: it isn't UTF-8"));
}

TEST_F(CheckFull, LooksIntoChildren) {
  const std::vector<Field> fields = {field(
      "s", TypeId::kStruct,
      {test::fixed_size_list(
          "f", 2,
          field("item", TypeId::kList, {union_of("u", TypeId::kSparseUnion, {0}, {field("t", TypeId::kUtf8)})}))})};
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, kRows, 0, true));
  RecordBatch batch = import_batch(std::make_shared<Schema>(fields), &array);
  check_full(batch);
  Bytes text(static_cast<std::size_t>(batch.buffers.back().size), std::byte{0x80});
  batch.buffers.back().data = text.data();
  EXPECT_THAT(refused(batch), HasSubstr("field \"s.f.item.u.t\": element "));
}

}  // namespace
}  // namespace crossdock::array
