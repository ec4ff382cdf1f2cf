#include "crossdock/array/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::dictionary_of;
using test::field;
using ::testing::HasSubstr;

TEST(Schema, LaysNodesOutInPreorder) {
  const Schema schema({field("a", TypeId::kInt32),
                       field("s", TypeId::kStruct,
                             {field("l", TypeId::kList, {field("item", TypeId::kUtf8)}),
                              dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8))}),
                       field("n", TypeId::kNull), field("b", TypeId::kBool)});
  const std::vector<LayoutNode>& nodes = schema.nodes();
  ASSERT_EQ(nodes.size(), 7u);
  std::vector<std::string> names;
  std::vector<int> first_buffers;
  for (const LayoutNode& node : nodes) {
    names.push_back(node.field->name);
    first_buffers.push_back(node.first_buffer);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("a", "s", "l", "item", "d", "n", "b"));
  EXPECT_THAT(first_buffers, ::testing::ElementsAre(0, 2, 3, 5, 8, 10, 10));
  EXPECT_EQ(schema.n_buffers(), 12);
  EXPECT_EQ(nodes[1].n_children, 2);
  EXPECT_EQ(nodes[4].dictionary_slot, 0);
  EXPECT_EQ(nodes[4].type.width, 1);
  ASSERT_EQ(schema.dictionaries().size(), 1u);
  EXPECT_EQ(schema.dictionaries()[0].values->fields().front().type.id, TypeId::kUtf8);
}

TEST(Schema, AssignsIdsThatCollideWithNone) {
  Field given = dictionary_of("given", TypeId::kInt8, field("", TypeId::kUtf8));
  given.dictionary_id = 1;
  const Schema schema(
      {dictionary_of("a", TypeId::kInt8,
                     field("", TypeId::kStruct, {dictionary_of("b", TypeId::kInt8, field("", TypeId::kBool))})),
       given, dictionary_of("c", TypeId::kInt8, field("", TypeId::kUtf8))});
  ASSERT_EQ(schema.dictionaries().size(), 3u);
  const Schema& nested = *schema.dictionaries()[0].values;
  ASSERT_EQ(nested.dictionaries().size(), 1u);
  const std::set<std::int64_t> ids = {schema.dictionaries()[0].id, nested.dictionaries()[0].id,
                                      schema.dictionaries()[1].id, schema.dictionaries()[2].id};
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(schema.dictionaries()[1].id, 1);
  EXPECT_EQ(ids.count(-1), 0u);
  EXPECT_EQ(schema.fields()[0].dictionary->children[0].dictionary_id, nested.dictionaries()[0].id);
}

TEST(Schema, FieldsOfOneIdShareTheValuesSchema) {
  Field a = dictionary_of("a", TypeId::kInt8, field("x", TypeId::kUtf8));
  Field b = dictionary_of("b", TypeId::kInt32, field("y", TypeId::kUtf8));
  a.dictionary_id = b.dictionary_id = 7;
  const Schema schema({a, b});
  ASSERT_EQ(schema.dictionaries().size(), 2u);
  EXPECT_EQ(schema.dictionaries()[0].values, schema.dictionaries()[1].values);
  EXPECT_EQ(schema.dictionaries()[1].id, 7);
}

TEST(Schema, FindsADictionaryAlsoWithinAnother) {
  Field word;
  word.type.id = TypeId::kUtf8;
  Field inner;
  inner.type.id = TypeId::kInt8;
  inner.dictionary = std::make_shared<const Field>(word);
  inner.dictionary_id = 9;
  inner.name = "inner";
  Field row;
  row.type.id = TypeId::kStruct;
  row.children = {inner};
  Field outer;
  outer.name = "outer";
  outer.type.id = TypeId::kInt32;
  outer.dictionary = std::make_shared<const Field>(row);
  outer.dictionary_id = 7;
  const Schema schema({outer});
  ASSERT_NE(schema.find_dictionary(7), nullptr);
  EXPECT_EQ(schema.find_dictionary(7)->fields()[0].type.id, TypeId::kStruct);
  ASSERT_NE(schema.find_dictionary(9), nullptr);
  EXPECT_EQ(schema.find_dictionary(9)->fields()[0].type.id, TypeId::kUtf8);
  EXPECT_EQ(schema.find_dictionary(8), nullptr);
}

TEST(Schema, RefusesOneIdForDifferentValues) {
  Field a = dictionary_of("a", TypeId::kInt8, field("", TypeId::kUtf8));
  Field b = dictionary_of("b", TypeId::kInt8, field("", TypeId::kBinary));
  a.dictionary_id = b.dictionary_id = 7;
  EXPECT_THAT(message_of<InvalidDataError>([&] { Schema({a, b}); }), HasSubstr("field \"b\": dictionary id 7"));
}

TEST(Schema, RefusesADictionaryWithinItself) {
  Field inner = dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8));
  Field outer = dictionary_of("a", TypeId::kInt8, field("", TypeId::kStruct, {inner}));
  outer.dictionary_id = 3;
  Field twice = *outer.dictionary;
  twice.children[0].dictionary_id = 3;
  outer.dictionary = std::make_shared<Field>(twice);
  EXPECT_THAT(message_of<InvalidDataError>([&] { Schema({outer}); }), HasSubstr("own id 3"));
}

TEST(Schema, RefusesWhatTheFormatForbids) {
  const auto refused = [](Field bad) {
    return message_of<InvalidDataError>([&] { Schema({field("top", TypeId::kStruct, {bad})}); });
  };
  EXPECT_THAT(refused(field("x", TypeId::kList)), HasSubstr("field \"top.x\": list has 1 child fields, not 0"));
  EXPECT_THAT(refused(field("x", TypeId::kInt8, {field("y", TypeId::kInt8)})), HasSubstr("0 child fields, not 1"));
  EXPECT_THAT(refused(field("x", TypeId::kMap, {field("e", TypeId::kStruct, {field("k", TypeId::kUtf8)})})),
              HasSubstr("struct of two fields"));
  EXPECT_THAT(refused(field("x", TypeId::kMap, {field("e", TypeId::kInt8)})), HasSubstr("struct of two fields"));
  EXPECT_THAT(refused(dictionary_of("x", TypeId::kUtf8, field("", TypeId::kUtf8))), HasSubstr("must be integers"));
  EXPECT_THAT(refused(field("x", TypeId::kDecimal128)), HasSubstr("precision of 1 to 38"));
  Field bad = field("x", TypeId::kTime32);
  bad.type.unit = TimeUnit::kNano;
  EXPECT_THAT(refused(bad), HasSubstr("time32 counts s or ms"));
  bad = field("x", TypeId::kTime64);
  EXPECT_THAT(refused(bad), HasSubstr("time64 counts us or ns"));
  bad = field("x", TypeId::kFixedSizeBinary);
  bad.type.fixed_size = -1;
  EXPECT_THAT(refused(bad), HasSubstr("negative size"));
  bad = field("x", static_cast<TypeId>(200));
  EXPECT_THAT(refused(bad), HasSubstr("unknown type 200"));
  bad = field("x", TypeId::kDuration);
  bad.type.unit = static_cast<TimeUnit>(9);
  EXPECT_THAT(refused(bad), HasSubstr("time unit 9"));
  bad = dictionary_of("x", TypeId::kInt8, field("", TypeId::kUtf8));
  bad.dictionary_id = -5;
  EXPECT_THAT(refused(bad), HasSubstr("-5 is negative"));
}

TEST(Schema, NestingIsBounded) {
  const auto nested = [](int levels) {
    Field inner = field("x", TypeId::kInt8);
    for (int i = 1; i < levels; ++i) inner = field("x", TypeId::kStruct, {inner});
    return inner;
  };
  EXPECT_EQ(Schema({nested(kMaxDepth)}).nodes().size(), static_cast<std::size_t>(kMaxDepth));
  EXPECT_THAT(message_of<InvalidDataError>([&] { Schema({nested(kMaxDepth + 1)}); }), HasSubstr("nested deeper"));
}

TEST(Schema, DictionariesThatMultiplyAreBounded) {
  // Each level's values hold the next one twice: small to write down, 2^25 fields to lay out.
  Field level = field("leaf", TypeId::kUtf8);
  for (int i = 0; i < 25; ++i) {
    const Field twice = dictionary_of("d", TypeId::kInt8, level);
    level = field("s", TypeId::kStruct, {twice, twice});
  }
  EXPECT_THAT(message_of<InvalidDataError>([&] { Schema({level}); }), HasSubstr("more than 65536 fields"));
}

TEST(Schema, EqualityIgnoresWhatTheWireForgets) {
  Field a = dictionary_of("a", TypeId::kInt8, field("x", TypeId::kUtf8));
  Field b = dictionary_of("a", TypeId::kInt8, field("y", TypeId::kUtf8));
  b.dictionary_id = 9;
  EXPECT_EQ(a, b);
  b.dictionary_ordered = true;
  EXPECT_FALSE(a == b);
  Field c = a;
  c.metadata = {{"k", "v"}};
  EXPECT_FALSE(a == c);
  EXPECT_FALSE(a == field("a", TypeId::kInt8));
  EXPECT_FALSE(Schema({a}) == Schema({a}, {{"k", "v"}}));
  EXPECT_TRUE(Schema({a}) == Schema({a}));
}

TEST(Schema, ReadsAsText) {
  Field id = field("id\n", TypeId::kInt64);
  id.nullable = false;
  const Schema schema({id, field("l", TypeId::kList, {field("item", TypeId::kUtf8)}),
                       dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8))});
  EXPECT_EQ(schema.to_string(), "id\\n: int64 not null\nl: list\n  item: utf8\nd: dictionary<utf8, indices int8>\n");
}

}  // namespace
}  // namespace crossdock::array
