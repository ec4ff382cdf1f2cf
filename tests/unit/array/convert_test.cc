#include "array/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/guarded.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::dictionary_of;
using test::field;
using test::fixed_size_list;
using testing::Guarded;
using ::testing::HasSubstr;
using enum TypeId;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::shared_ptr<const Schema> schema_of(Field field) {
  return std::make_shared<const Schema>(std::vector{std::move(field)});
}

RecordBatch converted(const RecordBatch& batch, const Field& to, std::int64_t* copied = nullptr) {
  std::int64_t ignored = 0;
  return Conversion(*batch.schema, schema_of(to)).apply(batch, copied != nullptr ? copied : &ignored);
}

Field named(Field of, const std::string& name) {
  of.name = name;
  return of;
}

std::vector<Field> encodings(TypeId narrow, TypeId wide, TypeId view) {
  return {field("x", narrow),
          field("x", wide),
          field("x", view),
          dictionary_of("x", kInt8, field("", narrow)),
          dictionary_of("x", kUInt64, field("", wide)),
          dictionary_of("x", kInt16, field("", view)),
          dictionary_of("x", kInt32, dictionary_of("", kInt8, field("", narrow)))};
}

std::vector<Field> lists_of(const Field& item) {
  return {field("x", kList, {named(item, "item")}), field("x", kLargeList, {named(item, "element")})};
}

/// Fields with another one around each.
std::vector<std::function<Field(Field)>> wrappers() {
  return {[](Field of) { return of; },
          [](Field of) {
            return field("x", kStruct, {field("i", kInt32), named(std::move(of), "f")});
          },
          [](Field of) { return field("x", kLargeList, {named(std::move(of), "item")}); },
          [](Field of) { return field("x", kLargeListView, {named(std::move(of), "item")}); },
          [](Field of) { return fixed_size_list("x", 2, named(std::move(of), "item")); },
          [](Field of) { return test::run_end_encoded("x", kInt32, named(std::move(of), "values")); },
          [](Field of) {
            return test::union_of("x", kDenseUnion, {3, 1}, {named(std::move(of), "a"), field("b", kNull)});
          },
          [](Field of) {
            Field key = field("key", kUtf8);
            Field entries = field("entries", kStruct, {key, named(std::move(of), "value")});
            entries.nullable = entries.children[0].nullable = false;
            return field("x", kMap, {entries});
          }};
}

class Convert : public test::ArrayTest {
 protected:
  static void expect_equal_data(const Field& from, const Field& to) {
    for (const std::int64_t start : {0, 1, 8, 13}) {
      for (const std::int64_t rows : {0, 1, 33}) {
        for (const std::int64_t inner : {0, 3}) {
          ArrowDeviceArray array = test::on_host(test::make_struct({from}, start + rows + 2, inner, inner == 0));
          array.array.offset = start;
          array.array.length = rows;
          const std::string before = test::rows_text({from}, array.array, 0, rows);
          RecordBatch out = converted(import_batch(schema_of(from), &array), to);
          check_full(out);
          ArrowDeviceArray after;
          export_batch(std::move(out), &after);
          EXPECT_EQ(test::rows_text({to}, after.array, 0, rows), before)
              << Schema({from}).to_string() << Schema({to}).to_string() << start << " " << rows << " " << inner;
          test::release(&after);
        }
      }
    }
  }
};

TEST_F(Convert, TextBinaryDataAndListsKeepTheirElementsInEveryEncoding) {
  const Field text = field("item", kUtf8);
  const Field words = dictionary_of("element", kUInt16, field("", kUtf8View));
  std::vector<Field> lists = lists_of(text);
  for (const Field& of : lists_of(words)) lists.push_back(of);
  for (const std::vector<Field>& of :
       {encodings(kUtf8, kLargeUtf8, kUtf8View), encodings(kBinary, kLargeBinary, kBinaryView), lists}) {
    for (const auto& wrapped : wrappers()) {
      for (const Field& from : of) {
        for (const Field& to : of) expect_equal_data(wrapped(from), wrapped(to));
      }
    }
  }
}

TEST_F(Convert, EveryFlatTypeMayBeADictionary) {
  for (const Field& flat : test::every_type()) {
    const TypeLayout layout = type_layout(flat.type);
    if (flat.dictionary || layout.n_children != 0 || layout.n_buffers < 2) continue;
    const Field encoded = dictionary_of(flat.name, kInt8, flat);
    expect_equal_data(flat, encoded);
    expect_equal_data(encoded, flat);
    expect_equal_data(encoded, dictionary_of(flat.name, kUInt32, flat));
  }
}

/// A column of `rows` elements without nulls.
RecordBatch column(Field of, std::int64_t rows, std::vector<BufferView> buffers) {
  RecordBatch batch;
  batch.schema = schema_of(std::move(of));
  batch.num_rows = rows;
  batch.nodes = {{rows, 0, 0}};
  batch.buffers = std::move(buffers);
  batch.dictionaries.resize(batch.schema->dictionaries().size());
  if (batch.schema->has_views()) batch.variadic_counts = {std::ssize(batch.buffers) - 2};
  return batch;
}

template <class T>
BufferView view_of(const T& of) {
  return {std::data(of), static_cast<std::int64_t>(std::size(of) * sizeof(*std::data(of)))};
}

RecordBatch encoded(TypeId type, std::vector<BufferView> indices, std::int64_t rows, const RecordBatch& values) {
  RecordBatch batch = column(dictionary_of("x", type, values.schema->fields()[0]), rows, std::move(indices));
  batch.dictionaries = {std::make_shared<RecordBatch>(values)};
  return batch;
}

TEST_F(Convert, BuffersThatStayAreSharedAndNewOnesAreCounted) {
  const std::vector<std::int32_t> offsets = {0, 5, 5, 25};
  const std::string bytes = "shorttext longer than a view";
  const RecordBatch texts = column(field("x", kUtf8), 3, {{}, view_of(offsets), {bytes.data(), 25}});
  const auto copied_for = [&](const RecordBatch& batch, const Field& to) {
    std::int64_t copied = 0;
    const RecordBatch out = converted(batch, to, &copied);
    std::int64_t old = 0;
    for (const BufferView& buffer : out.buffers) old += buffer.data == bytes.data() ? 1 : 0;
    return std::pair(copied, old == 1);
  };
  EXPECT_EQ(copied_for(texts, field("x", kUtf8)), std::pair(0L, true));
  EXPECT_EQ(copied_for(texts, field("x", kLargeUtf8)), std::pair(4 * 8L, true));
  EXPECT_EQ(copied_for(texts, field("x", kUtf8View)), std::pair(3 * 16L, true));
  const Field words = dictionary_of("x", kInt16, field("", kUtf8));
  EXPECT_EQ(copied_for(texts, words), std::pair(3 * 2L + 4 * 4L + 25, false)) << "indices, dictionary";
  const RecordBatch view = converted(texts, field("x", kUtf8View));
  EXPECT_EQ(copied_for(view, field("x", kUtf8)), std::pair(4 * 4L + 25, false));
}

TEST_F(Convert, OtherNamesAndMetadataReadNothing) {
  Field to = field("x", kList, {field("element", kInt32)});
  to.metadata = {{"k", "v"}};
  const Conversion conversion(Schema({field("x", kList, {field("item", kInt32)})}), schema_of(to));
  EXPECT_EQ(conversion.effort(), Conversion::Effort::kNone);
  RecordBatch batch;
  batch.device = {.type = device::DeviceType::kCuda, .id = 0};
  std::int64_t copied = 0;
  EXPECT_EQ(conversion.apply(batch, &copied).schema, conversion.schema());
}

TEST_F(Convert, NumbersThatDoNotFitAreRefused) {
  const auto refused = [](const RecordBatch& batch, const Field& to) {
    return message_of<ExportError>([&] { converted(batch, to); });
  };
  const std::string byte = "12345";
  // No byte of these is read: they stay where they are.
  const std::vector<std::int64_t> offsets = {0, 1, 3 * kGiB};
  const RecordBatch texts = column(field("x", kLargeUtf8), 2, {{}, view_of(offsets), {byte.data(), 3 * kGiB}});
  EXPECT_THAT(refused(texts, field("x", kUtf8)), HasSubstr("field \"x\": 3221225472 doesn't fit the 32 bits"));
  EXPECT_THAT(refused(texts, field("x", kUtf8View)), HasSubstr("3221225471 doesn't fit"));
  RecordBatch lists = column(field("x", kLargeList, {field("item", kNull)}), 2, {{}, view_of(offsets)});
  lists.nodes.push_back({3 * kGiB, 3 * kGiB, 0});
  EXPECT_THAT(refused(lists, field("x", kList, {field("item", kNull)})), HasSubstr("3221225472 doesn't fit"));
  std::vector<std::int16_t> numbers(129);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int16_t>(i);
  const RecordBatch plain = column(field("x", kInt16), 129, {{}, view_of(numbers)});
  EXPECT_THAT(refused(plain, dictionary_of("x", kInt8, field("", kInt16))), HasSubstr("128 doesn't fit the 8 bits"));
  const RecordBatch words = encoded(kInt16, {{}, view_of(numbers)}, 129, plain);
  EXPECT_THAT(refused(words, dictionary_of("x", kInt8, field("", kInt16))), HasSubstr("128 doesn't fit the 8 bits"));
}

TEST_F(Convert, BytesBeyondTwoGiBAreInASecondBufferOfViews) {
  constexpr std::size_t kSize = 3 * kGiB;
  void* const bytes = ::mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(bytes, MAP_FAILED);
  const std::vector<std::int64_t> offsets = {0, kGiB, 2 * kGiB + 5, 2 * kGiB + 25};
  const RecordBatch texts = column(field("x", kLargeUtf8), 3, {{}, view_of(offsets), {bytes, 3 * kGiB}});
  const RecordBatch out = converted(texts, field("x", kUtf8View));
  check_structure(out);
  const std::span last(static_cast<const std::int32_t*>(out.buffers[1].data) + 8, 4);
  EXPECT_THAT(last, ::testing::ElementsAre(20, 0, 1, 5));
  EXPECT_EQ(out.buffers[3].data, static_cast<const std::byte*>(bytes) + 2 * kGiB);
  EXPECT_EQ(out.buffers[3].size, 25) << "normal form cuts what no offset points to";
  ::munmap(bytes, kSize);
}

TEST_F(Convert, WrongOffsetsAreRefused) {
  for (const auto& [wrong, at] : {std::pair{-1, 1}, {-1, 2}, {1 << 30, 1}, {7, 2}, {4, 2}}) {
    std::array<std::int32_t, 4> offsets = {0, 5, 6, 6};
    offsets[static_cast<std::size_t>(at)] = wrong;
    const Guarded numbers = Guarded::of(std::span<const std::int32_t>(offsets));
    const Guarded bytes(6);
    const RecordBatch texts =
        column(field("x", kUtf8), 3, {{}, {numbers.data(), numbers.size()}, {bytes.data(), bytes.size()}});
    for (const Field& to : encodings(kUtf8, kLargeUtf8, kUtf8View)) {
      if (to.type.id == kUtf8) continue;
      EXPECT_THAT(message_of<InvalidDataError>([&] { converted(texts, to); }), HasSubstr("field \"x\": its offsets"));
    }
    RecordBatch lists = column(field("x", kList, {field("item", kNull)}), 3, {{}, {numbers.data(), numbers.size()}});
    lists.nodes.push_back({6, 6, 0});
    EXPECT_THROW(converted(lists, field("x", kLargeList, {field("item", kNull)})), InvalidDataError);
  }
}

TEST_F(Convert, WrongOffsetsOfNullsAreRefusedWithTheNextElement) {
  const std::uint8_t validity = 0b110;
  const std::vector<std::int32_t> offsets = {0, -1, 5, 6};
  RecordBatch texts = column(field("x", kUtf8), 3, {{&validity, 1}, view_of(offsets), {"123456", 6}});
  texts.nodes[0].null_count = 1;
  for (const TypeId to : {kLargeUtf8, kUtf8View}) EXPECT_THROW(converted(texts, field("x", to)), InvalidDataError);
}

TEST_F(Convert, WrongIndicesAreRefused) {
  const Guarded values = Guarded::of(std::span<const std::int32_t>(std::array{1, 2}));
  const RecordBatch words = column(field("", kInt32), 2, {{}, {values.data(), values.size()}});
  for (const std::int8_t wrong : std::initializer_list<std::int8_t>{-1, -128, 2, 127}) {
    const Guarded indices = Guarded::of(std::span<const std::int8_t>(std::array<std::int8_t, 3>{0, 1, wrong}));
    const RecordBatch batch = encoded(kInt8, {{}, {indices.data(), 3}}, 3, words);
    for (const Field& to : {field("x", kInt32), dictionary_of("x", kInt64, field("", kInt32))}) {
      EXPECT_THAT(message_of<InvalidDataError>([&] { converted(batch, to); }),
                  HasSubstr("field \"x\": element 2: its index isn't one of the 2 elements"));
      RecordBatch missing = batch;
      missing.dictionaries = {nullptr};
      EXPECT_THROW(converted(missing, to), InvalidDataError);
    }
  }
}

TEST_F(Convert, WrongViewsAreRefused) {
  const Guarded bytes(20);
  for (const std::array<std::int32_t, 4>& wrong : {std::array{-1, 0, 0, 0},
                                                   {13, 0, -1, 0},
                                                   {13, 0, 1, 0},
                                                   {13, 0, 0, 8},
                                                   {13, 0, 0, -1},
                                                   {INT32_MAX, 0, 0, INT32_MAX},
                                                   {13, 0, INT32_MIN, 0}}) {
    const Guarded views = Guarded::of(std::span<const std::int32_t>(wrong));
    const RecordBatch batch =
        column(field("x", kUtf8View), 1, {{}, {views.data(), views.size()}, {bytes.data(), bytes.size()}});
    for (const Field& to : encodings(kUtf8, kLargeUtf8, kUtf8View)) {
      if (to.type.id == kUtf8View) continue;
      EXPECT_THAT(message_of<InvalidDataError>([&] { converted(batch, to); }),
                  HasSubstr("field \"x\": a view lies outside of its buffers"));
    }
  }
}

TEST_F(Convert, FieldsWithoutNullsAreChecked) {
  const std::uint8_t validity = 0b101;
  const std::vector<std::int32_t> numbers = {1, 2, 3};
  RecordBatch batch = column(field("x", kInt32), 3, {{}, view_of(numbers)});
  Field to = field("x", kInt32);
  to.nullable = false;
  EXPECT_EQ(converted(batch, to).buffers[1].data, numbers.data());
  batch.buffers[0] = {&validity, 1};
  batch.nodes[0].null_count = -1;
  EXPECT_THAT(message_of<InvalidDataError>([&] { converted(batch, to); }),
              HasSubstr("field \"x\": elements are null, but the field is requested without nulls"));
}

TEST_F(Convert, NullsOfADictionaryAreNullsOfTheColumn) {
  const std::uint8_t validity = 0b01;
  const std::vector<std::int32_t> numbers = {1, 2};
  RecordBatch words = column(field("", kInt32), 2, {{&validity, 1}, view_of(numbers)});
  words.nodes[0].null_count = 1;
  const std::vector<std::int8_t> indices = {0, 1, 1};
  RecordBatch batch = encoded(kInt8, {{}, view_of(indices)}, 3, words);
  EXPECT_EQ(converted(batch, field("x", kInt32)).nodes[0].null_count, 2);
  Field to = field("x", kInt32);
  to.nullable = false;
  EXPECT_THROW(converted(batch, to), InvalidDataError);
}

TEST(ConvertSchemas, TypesWithoutChildrenAreTheConsumersCast) {
  const auto effort = [](Field from, Field to) {
    return Conversion(Schema({std::move(from)}), schema_of(std::move(to))).effort();
  };
  EXPECT_EQ(effort(field("x", kInt32), field("x", kInt64)), Conversion::Effort::kCast);
  EXPECT_EQ(effort(field("x", kList, {field("i", kInt32)}), field("x", kLargeList, {field("i", kInt64)})),
            Conversion::Effort::kCast);
  EXPECT_EQ(effort(field("x", kInt32), dictionary_of("x", kInt8, field("", kInt64))), Conversion::Effort::kCast);
  EXPECT_EQ(effort(field("x", kUtf8), field("x", kBinary)), Conversion::Effort::kCast);
  EXPECT_EQ(effort(field("x", kNull), field("x", kInt32)), Conversion::Effort::kCast);
  EXPECT_EQ(effort(field("x", kUtf8), field("x", kLargeUtf8)), Conversion::Effort::kRead);
}

TEST(ConvertSchemas, OnlyTheEncodingMayDiffer) {
  const auto refused = [](Field from, Field to) {
    return message_of<UnsupportedTypeError>([&] { Conversion(Schema({std::move(from)}), schema_of(std::move(to))); });
  };
  const Field text = field("x", kUtf8);
  EXPECT_THAT(refused(text, field("x", kList, {text})),
              HasSubstr("field \"x\" can't be exported as requested: it is utf8, not list"));
  EXPECT_THAT(refused(text, field("y", kUtf8)), HasSubstr("\"y\" is requested in its place"));
  EXPECT_THAT(refused(field("x", kStruct, {text}), field("x", kStruct, {field("y", kUtf8)})), HasSubstr("\"x.x\""));
  EXPECT_THAT(refused(field("x", kStruct, {text}), field("x", kStruct)), HasSubstr("it has 1 fields, not 0"));
  EXPECT_THAT(refused(field("x", kList, {text}), field("x", kLargeList, {field("i", kStruct)})), HasSubstr("x.x"));
  const Field list = field("x", kList, {text});
  EXPECT_THAT(refused(list, dictionary_of("x", kInt8, list)), HasSubstr("values of list aren't flat"));
  EXPECT_THAT(refused(field("x", kNull), dictionary_of("x", kInt8, field("", kNull))), HasSubstr("aren't flat"));
  Field ordered = dictionary_of("x", kInt8, text);
  ordered.dictionary_ordered = true;
  EXPECT_THAT(refused(dictionary_of("x", kInt8, text), ordered), HasSubstr("it has no ordered dictionary"));
  Field uuid = field("x", kUtf8);
  Field json = field("x", kUtf8);
  uuid.metadata = {{"ARROW:extension:name", "arrow.uuid"}};
  json.metadata = {{"ARROW:extension:name", "arrow.json"}};
  EXPECT_THAT(refused(uuid, json), HasSubstr("its extension type is another"));
  EXPECT_THAT(message_of<UnsupportedTypeError>([&] {
                Conversion(Schema({text, text}), schema_of(text));
              }),
              HasSubstr("it has 2 fields, not 1"));
}

}  // namespace
}  // namespace crossdock::array
