#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::ArrayTest;
using test::dictionary_of;
using test::field;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Select : public ArrayTest {};

TEST_F(Select, TakesWholeColumnsInTheOrderAsked) {
  const std::vector<Field> fields = test::every_type();
  const std::vector<std::string> names = {"of_lists", "deep_views", "nested", "deep", "views", "words", "utf8_view"};
  std::vector<Field> chosen;
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, 15, 0, true));
  std::vector<ArrowArray*> columns;
  for (const std::string& name : names) {
    const auto at = std::ranges::find(fields, name, &Field::name);
    ASSERT_NE(at, fields.end()) << name;
    chosen.push_back(*at);
    columns.push_back(array.array.children[at - fields.begin()]);
  }
  const std::string expected =
      test::rows_text(chosen,
                      ArrowArray{array.array.length, 0, 0, 1, static_cast<std::int64_t>(columns.size()),
                                 array.array.buffers, columns.data(), nullptr, nullptr, nullptr},
                      0, 15);
  const RecordBatch batch = import_batch(std::make_shared<Schema>(fields, Metadata{{"k", "v"}}), &array);
  std::vector<int> indices;
  const auto schema = select_fields(*batch.schema, names, &indices);
  EXPECT_EQ(schema->metadata(), batch.schema->metadata());
  EXPECT_EQ(schema->dictionaries()[0].id, batch.schema->dictionaries()[3].id) << "ids stay";
  RecordBatch selected = select_columns(batch, schema, indices);
  check_structure(selected);
  EXPECT_EQ(selected.num_rows, 15);
  EXPECT_EQ(selected.owner, batch.owner);
  EXPECT_EQ(selected.dictionaries[0], batch.dictionaries[3]);
  ArrowDeviceArray exported;
  export_batch(std::move(selected), &exported);
  EXPECT_EQ(test::rows_text(chosen, exported.array, 0, 15), expected);
  test::release(&exported);
}

TEST_F(Select, NoColumnsKeepTheRows) {
  const std::vector<Field> fields = {field("a", TypeId::kInt8)};
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, 15, 0, true));
  const RecordBatch batch = import_batch(std::make_shared<Schema>(fields), &array);
  std::vector<int> indices;
  const auto none = select_fields(*batch.schema, {}, &indices);
  EXPECT_EQ(select_columns(batch, none, indices).num_rows, 15);
}

TEST_F(Select, NamesWhatThereIs) {
  const Schema schema({field("a", TypeId::kInt8), field("b", TypeId::kInt8), field("b", TypeId::kUtf8)});
  std::vector<int> indices = {9};
  EXPECT_THAT(message_of<NotFoundError>([&] {
                select_fields(schema, {"a", "x\n"}, &indices);
              }),
              HasSubstr("no column \"x\\n\"; there are \"a\", \"b\", \"b\""));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { select_fields(schema, {"b"}, &indices); }),
              HasSubstr("ambiguous"));
  EXPECT_THAT(indices, ElementsAre(9));
  EXPECT_EQ(select_fields(schema, {"a"}, &indices)->fields().size(), 1u);
  EXPECT_THAT(indices, ElementsAre(0));
}

TEST_F(Select, RefusesIndicesThatDoNotFit) {
  const std::vector<Field> fields = {field("a", TypeId::kInt8), field("u", TypeId::kUtf8)};
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, 2, 0, true));
  const RecordBatch batch = import_batch(std::make_shared<Schema>(fields), &array);
  std::vector<int> indices;
  const auto schema = select_fields(*batch.schema, {"u"}, &indices);
  EXPECT_THROW(select_columns(batch, schema, {}), InvalidArgumentError);
  EXPECT_THROW(select_columns(batch, schema, {2}), InvalidArgumentError);
  EXPECT_THROW(select_columns(batch, schema, {-1}), InvalidArgumentError);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { select_columns(batch, schema, {0}); }), HasSubstr("2 buffers"));
}

}  // namespace
}  // namespace crossdock::array
