#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::TypeId;
using ::testing::HasSubstr;

std::shared_ptr<const array::Schema> round_trip(const array::Schema& schema) {
  Encoder encoder;
  const Message message = Message::parse(encoder.schema(schema), {}, "round trip");
  EXPECT_EQ(message.kind(), MessageKind::kSchema);
  EXPECT_FALSE(message.has_body());
  EXPECT_EQ(message.body_length(), 0);
  return message.schema();
}

TEST(SchemaWriter, EveryTypeComesBackAsItWas) {
  const auto schema = every_type();
  const auto back = round_trip(*schema);
  EXPECT_EQ(back->to_string(), schema->to_string());
  EXPECT_TRUE(*back == *schema);
}

TEST(SchemaWriter, EmptySchema) {
  const array::Schema schema({});
  const auto back = round_trip(schema);
  EXPECT_TRUE(back->fields().empty());
  EXPECT_TRUE(back->metadata().empty());
}

TEST(SchemaWriter, DictionaryIdsAndOrderAreKept) {
  const auto back = round_trip(*every_type());
  const auto& slots = back->dictionaries();
  ASSERT_EQ(slots.size(), 6u);
  EXPECT_EQ(slots[0].id, 0);
  EXPECT_EQ(slots[1].id, 7);
  EXPECT_EQ(slots[2].id, 7);
  EXPECT_EQ(slots[3].id, 8);
  ASSERT_EQ(slots[3].values->dictionaries().size(), 1u);
  EXPECT_EQ(slots[3].values->dictionaries()[0].id, 9);
  for (const array::Field& top : back->fields()) EXPECT_EQ(top.dictionary_ordered, top.name == "coded") << top.name;
}

TEST(SchemaWriter, IdsAreAssignedWhereThereAreNone) {
  const array::Schema schema({dictionary("a", TypeId::kInt8, field("", TypeId::kUtf8), -1),
                              dictionary("b", TypeId::kInt8, field("", TypeId::kUtf8), -1)});
  const auto back = round_trip(schema);
  ASSERT_EQ(back->dictionaries().size(), 2u);
  EXPECT_NE(back->dictionaries()[0].id, back->dictionaries()[1].id);
  EXPECT_EQ(back->dictionaries()[0].id, schema.dictionaries()[0].id);
}

TEST(SchemaWriter, OneEncoderWritesManyAndTheSameBytesAgain) {
  Encoder encoder;
  const auto first = to_vector(encoder.schema(*every_type()));
  const array::Schema small({field("a", TypeId::kInt8)});
  EXPECT_LT(encoder.schema(small).size(), first.size());
  EXPECT_EQ(to_vector(encoder.schema(*every_type())), first);
}

TEST(SchemaWriter, DictionaryOfDictionaryIsRefusedByPath) {
  const array::Schema schema(
      {field("outer", array::Type{.id = TypeId::kStruct},
             {dictionary("twice", TypeId::kInt8, dictionary("", TypeId::kInt8, field("", TypeId::kUtf8), 1), 2)})});
  Encoder encoder;
  const std::string error = error_of<UnsupportedTypeError>([&] { encoder.schema(schema); });
  EXPECT_THAT(error, HasSubstr("\"outer.twice\""));
  EXPECT_GT(encoder.schema(array::Schema({field("a", TypeId::kInt8)})).size(), 0u) << "the encoder still works";
}

TEST(SchemaWriter, TheWidestSchemaThatThereIsCanBeRead) {
  const auto schema = floats(array::kMaxFields);
  EXPECT_TRUE(*round_trip(*schema) == *schema);
}

}  // namespace
}  // namespace crossdock::ipc::testing
