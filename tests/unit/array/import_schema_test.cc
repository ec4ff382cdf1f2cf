#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "core/text.h"
#include "crossdock/array/schema.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using ::testing::HasSubstr;

/// Schemas whose parts live as long as this object; the release callback only marks.
class Foreign {
 public:
  ArrowSchema* make(const char* format, const char* name = "x", std::vector<ArrowSchema*> children = {}) {
    ArrowSchema& out = schemas_.emplace_back();
    lists_.push_back(std::move(children));
    out.format = format;
    out.name = name;
    out.flags = ARROW_FLAG_NULLABLE;
    out.n_children = static_cast<std::int64_t>(lists_.back().size());
    out.children = lists_.back().empty() ? nullptr : lists_.back().data();
    out.release = [](ArrowSchema* schema) { schema->release = nullptr; };
    return &out;
  }

  /// The batch schema around one field, imported.
  std::shared_ptr<const Schema> import(ArrowSchema* child) { return import_schema(*make("+s", "", {child})); }
  template <typename E>
  std::string refused(const char* format) {
    return message_of<E>([&] { import(make("+s", "outer", {make(format, "inner")})); });
  }

 private:
  std::deque<ArrowSchema> schemas_;
  std::deque<std::vector<ArrowSchema*>> lists_;
};

TEST(ImportSchema, NamesFormatsThatItDoesNotKnow) {
  Foreign foreign;
  for (const char* format : {"?", "", "ix", "vux", "+v", "+vx", "+r:", "+us", "+ux:0", "ti", "tiX", "vU", "\x1b[2J"}) {
    const std::string message = foreign.refused<UnsupportedTypeError>(format);
    EXPECT_THAT(message, HasSubstr("field \"outer.inner\"")) << format;
    EXPECT_THAT(message, HasSubstr("format \"" + printable(format) + "\"")) << format;
  }
}

TEST(ImportSchema, ReadsUnionsAndRunEnds) {
  Foreign foreign;
  const auto schema =
      foreign.import(foreign.make("+ud:5,0", "u", {foreign.make("vu", "a"), foreign.make("+us:", "nothing", {})}));
  const Field& field = schema->fields()[0];
  EXPECT_EQ(field.type.id, TypeId::kDenseUnion);
  EXPECT_EQ(field.type.type_codes, (std::vector<std::int8_t>{5, 0}));
  EXPECT_EQ(field.children[0].type.id, TypeId::kUtf8View);
  EXPECT_EQ(field.children[1].type.id, TypeId::kSparseUnion);
  EXPECT_EQ(schema->n_variadic(), 1);
  EXPECT_TRUE(schema->has_views());
  const auto runs = foreign.import(foreign.make("+r", "r", {foreign.make("s"), foreign.make("tin")}));
  EXPECT_EQ(runs->nodes()[1].id, TypeId::kInt16);
  EXPECT_FALSE(runs->has_views());
}

TEST(ImportSchema, RefusesUnionsAndRunEndsThatDoNotExist) {
  Foreign foreign;
  const auto refused = [&](const char* format, const std::vector<const char*>& children) {
    std::vector<ArrowSchema*> made;
    for (const char* child : children) made.push_back(foreign.make(child));
    return message_of<InvalidDataError>([&] { foreign.import(foreign.make(format, "u", std::move(made))); });
  };
  EXPECT_THAT(refused("+us:0,1", {"i"}), HasSubstr("field \"u\": sparse_union[0, 1] has 2 type ids for 1 child"));
  EXPECT_THAT(refused("+ud:0", {"i", "i"}), HasSubstr("1 type ids for 2 child"));
  EXPECT_THAT(refused("+ud:3,3", {"i", "i"}), HasSubstr("gives a type id to two children"));
  for (const char* format : {"+us:-1", "+us:128", "+us:0,", "+us:x", "+ud:0 ", "+ud:,"}) {
    EXPECT_THAT(refused(format, {"i"}), HasSubstr("is malformed")) << format;
  }
  EXPECT_THAT(refused("+r", {"i"}), HasSubstr("run_end_encoded has 2 child fields, not 1"));
  for (const char* ends : {"c", "I", "u", "b", "tdD"}) {
    EXPECT_THAT(refused("+r", {ends, "i"}), HasSubstr("field \"u\": its run ends are ")) << ends;
  }
  EXPECT_THAT(refused("vu", {"i"}), HasSubstr("utf8_view has 0 child fields"));
  EXPECT_THAT(refused("+vl", {"i", "i"}), HasSubstr("list_view has 1 child fields"));
}

TEST(ImportSchema, RefusesMalformedFormats) {
  Foreign foreign;
  for (const char* format : {"d:", "d:9", "d:9,", "d:9,2,", "d:9,2,96", "d:9,2,128,1", "d:x,2", "d:99999999999,2",
                             "w:", "w:-1", "w:3,", "w:3x", "w: 3", "+w:", "+w:-2", "+w:2147483648"}) {
    EXPECT_THAT(foreign.refused<InvalidDataError>(format), HasSubstr("is malformed")) << format;
  }
  EXPECT_THAT(foreign.refused<InvalidDataError>("d:0,0"), HasSubstr("precision"));
  EXPECT_THAT(foreign.refused<InvalidDataError>("d:39,0"), HasSubstr("precision"));
  EXPECT_THAT(foreign.refused<InvalidDataError>("+l"), HasSubstr("field \"outer.inner\": list has 1 child"));
  EXPECT_THAT(foreign.refused<InvalidDataError>(nullptr), HasSubstr("no format string"));
}

TEST(ImportSchema, TakesAFieldThatIsNoStructAsOneColumn) {
  Foreign foreign;
  const auto schema = import_schema(*foreign.make("tsu:UTC", "when"));
  ASSERT_EQ(schema->fields().size(), 1u);
  EXPECT_EQ(schema->fields()[0].name, "when");
  EXPECT_EQ(type_name(schema->fields()[0].type), "timestamp[us, UTC]");
}

TEST(ImportSchema, ANullNameIsEmpty) {
  Foreign foreign;
  EXPECT_EQ(foreign.import(foreign.make("i", nullptr))->fields()[0].name, "");
  EXPECT_THAT(message_of<UnsupportedTypeError>([&] { foreign.import(foreign.make("?", nullptr)); }),
              HasSubstr("field \"[0]\""));
}

TEST(ImportSchema, RefusesBrokenStructures) {
  Foreign foreign;
  ArrowSchema* released = foreign.make("+s");
  released->release = nullptr;
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { import_schema(*released); }), HasSubstr("released already"));
  ArrowSchema* child = foreign.make("i");
  child->release = nullptr;
  EXPECT_THAT(message_of<InvalidDataError>([&] { foreign.import(child); }), HasSubstr("field \"x\""));
  EXPECT_THAT(message_of<InvalidDataError>([&] { foreign.import(nullptr); }), HasSubstr("is null"));
  ArrowSchema* pointerless = foreign.make("+s");
  pointerless->n_children = 3;
  EXPECT_THAT(message_of<InvalidDataError>([&] { import_schema(*pointerless); }), HasSubstr("no pointer"));
  pointerless->n_children = -3;
  EXPECT_THAT(message_of<InvalidDataError>([&] { import_schema(*pointerless); }), HasSubstr("-3 children"));
  ArrowSchema* huge = foreign.make("+s", "", {foreign.make("i")});
  huge->n_children = std::int64_t{1} << 60;
  EXPECT_THAT(message_of<InvalidDataError>([&] { import_schema(*huge); }), HasSubstr("more than"));
}

TEST(ImportSchema, DepthIsBounded) {
  Foreign foreign;
  ArrowSchema* nested = foreign.make("i");
  for (int i = 0; i < 100000; ++i) nested = foreign.make("+l", "x", {nested});
  EXPECT_THAT(message_of<InvalidDataError>([&] { foreign.import(nested); }), HasSubstr("nested deeper than 64"));
  ArrowSchema* loop = foreign.make("c");
  loop->dictionary = loop;
  EXPECT_THAT(message_of<InvalidDataError>([&] { foreign.import(loop); }), HasSubstr("nested deeper than 64"));
}

TEST(ImportSchema, RefusesNegativeMetadataLengths) {
  Foreign foreign;
  const auto refused = [&](std::vector<std::int32_t> blob) {
    ArrowSchema* field = foreign.make("i");
    field->metadata = reinterpret_cast<const char*>(blob.data());
    return message_of<InvalidDataError>([&] { foreign.import(field); });
  };
  EXPECT_THAT(refused({-1}), HasSubstr("field \"x\": metadata count is negative"));
  EXPECT_THAT(refused({1, -2}), HasSubstr("key length is negative (-2)"));
  EXPECT_THAT(refused({1, 0, -3}), HasSubstr("value length is negative"));
}

TEST(ImportSchema, ReadsMetadataInOrder) {
  Foreign foreign;
  std::string blob;
  const auto number = [&](std::int32_t n) { blob.append(reinterpret_cast<const char*>(&n), sizeof n); };
  number(2);
  for (const std::string text : {"k", "v1", "k", "v2"}) {
    number(static_cast<std::int32_t>(text.size()));
    blob += text;
  }
  ArrowSchema* root = foreign.make("+s");
  root->metadata = blob.data();
  EXPECT_EQ(import_schema(*root)->metadata(), (Metadata{{"k", "v1"}, {"k", "v2"}}));
}

}  // namespace
}  // namespace crossdock::array
