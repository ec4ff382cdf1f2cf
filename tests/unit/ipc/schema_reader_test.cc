#include <arrow_message_generated.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using ::testing::HasSubstr;
using FieldOffset = Offset<flatbuf::Field>;

ByteSpan finish(FlatBufferBuilder& b, Offset<flatbuf::Schema> schema) {
  b.Finish(flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V5, flatbuf::MessageHeader::Schema, schema.Union()));
  return {reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()};
}

/// A schema of the one field that `make` builds.
std::shared_ptr<const array::Schema> read_field(const std::function<FieldOffset(FlatBufferBuilder&)>& make,
                                                const Limits& limits = {}) {
  FlatBufferBuilder b;
  const std::vector<FieldOffset> fields{make(b)};
  return Message::parse(finish(b, flatbuf::CreateSchema(b, flatbuf::Endianness::Little, b.CreateVector(fields))),
                        limits, "made by hand")
      .schema();
}

FieldOffset plain(FlatBufferBuilder& b, flatbuf::Type kind, Offset<void> type,
                  const std::vector<FieldOffset>& children = {}) {
  const auto name = b.CreateString("here");
  return flatbuf::CreateField(b, name, true, kind, type, 0, b.CreateVector(children));
}

std::string invalid(const std::function<FieldOffset(FlatBufferBuilder&)>& make, const Limits& limits = {}) {
  return error_of<InvalidDataError>([&] { read_field(make, limits); });
}
std::string unsupported(const std::function<FieldOffset(FlatBufferBuilder&)>& make) {
  return error_of<UnsupportedTypeError>([&] { read_field(make); });
}

TEST(SchemaReader, AbsentMembersMeanTheirDefaults) {
  const auto schema = read_field([](FlatBufferBuilder& b) {
    return flatbuf::CreateField(b, 0, false, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union());
  });
  ASSERT_EQ(schema->fields().size(), 1u);
  EXPECT_EQ(schema->fields()[0].name, "");
  EXPECT_FALSE(schema->fields()[0].nullable);
  EXPECT_TRUE(schema->fields()[0].metadata.empty());
}

TEST(SchemaReader, SchemaWithoutFieldsVector) {
  FlatBufferBuilder b;
  const auto bytes = finish(b, flatbuf::CreateSchema(b));
  EXPECT_TRUE(Message::parse(bytes, {}, "made by hand").schema()->fields().empty());
}

TEST(SchemaReader, BigEndianIsRefused) {
  FlatBufferBuilder b;
  const auto bytes = finish(b, flatbuf::CreateSchema(b, flatbuf::Endianness::Big));
  const Message message = Message::parse(bytes, {}, "made by hand");
  EXPECT_THAT(error_of<UnsupportedTypeError>([&] { message.schema(); }), HasSubstr("big-endian"));
}

TEST(SchemaReader, DictionaryIndexDefaultsToInt32) {
  const auto schema = read_field([](FlatBufferBuilder& b) {
    const auto encoding = flatbuf::CreateDictionaryEncoding(b, 5);
    return flatbuf::CreateField(b, 0, true, flatbuf::Type::Utf8, flatbuf::CreateUtf8(b).Union(), encoding);
  });
  EXPECT_EQ(schema->fields()[0].type.id, array::TypeId::kInt32);
  ASSERT_TRUE(schema->fields()[0].dictionary);
  EXPECT_EQ(schema->fields()[0].dictionary->type.id, array::TypeId::kUtf8);
  EXPECT_EQ(schema->fields()[0].dictionary_id, 5);
}

TEST(SchemaReader, TypesOfALaterFormatAreNamedWithTheirPath) {
  const std::string error = unsupported([&](FlatBufferBuilder& b) {
    const auto inner = plain(b, static_cast<flatbuf::Type>(99), flatbuf::CreateNull(b).Union());
    return plain(b, flatbuf::Type::Struct_, flatbuf::CreateStruct_(b).Union(), {inner});
  });
  EXPECT_THAT(error, HasSubstr("\"here.here\""));
  EXPECT_THAT(error, HasSubstr("type number 99"));
}

/// A union of `n_children` booleans.
FieldOffset union_of(FlatBufferBuilder& b, flatbuf::UnionMode mode, const std::vector<std::int32_t>* ids,
                     int n_children) {
  std::vector<FieldOffset> children;
  for (int i = 0; i < n_children; ++i) {
    children.push_back(plain(b, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union()));
  }
  Offset<flatbuffers::Vector<std::int32_t>> written;
  if (ids) written = b.CreateVector(*ids);
  return plain(b, flatbuf::Type::Union, flatbuf::CreateUnion(b, mode, written).Union(), children);
}

TEST(SchemaReader, UnionsWithoutTypeIdsHaveTheirChildrensPositions) {
  const auto schema =
      read_field([](FlatBufferBuilder& b) { return union_of(b, flatbuf::UnionMode::Dense, nullptr, 3); });
  EXPECT_EQ(schema->fields()[0].type.id, array::TypeId::kDenseUnion);
  EXPECT_EQ(schema->fields()[0].type.type_codes, (std::vector<std::int8_t>{0, 1, 2}));
}

TEST(SchemaReader, UnionsWithAbsurdTypeIds) {
  const auto of = [](const std::vector<std::int32_t>& ids, int n_children) {
    return invalid([&](FlatBufferBuilder& b) { return union_of(b, flatbuf::UnionMode::Sparse, &ids, n_children); });
  };
  EXPECT_THAT(of({0, 1}, 1), HasSubstr("2 type ids and 1 children"));
  EXPECT_THAT(of({}, 1), HasSubstr("0 type ids and 1 children"));
  EXPECT_THAT(of({-1}, 1), HasSubstr("type id -1"));
  EXPECT_THAT(of({128}, 1), HasSubstr("type id 128"));
  EXPECT_THAT(of({1 << 30}, 1), HasSubstr("type id 1073741824"));
  EXPECT_THAT(of({4, 4}, 2), HasSubstr("two children"));
  EXPECT_THAT(invalid([](FlatBufferBuilder& b) { return union_of(b, flatbuf::UnionMode::Sparse, nullptr, 129); }),
              HasSubstr("at most 128"));
  EXPECT_THAT(invalid([](FlatBufferBuilder& b) { return union_of(b, static_cast<flatbuf::UnionMode>(2), nullptr, 1); }),
              HasSubstr("union mode 2"));
}

TEST(SchemaReader, EndiannessAndFeaturesAreTold) {
  FlatBufferBuilder b;
  const auto features = b.CreateVector(
      std::vector<flatbuf::Feature>{flatbuf::Feature::COMPRESSED_BODY, static_cast<flatbuf::Feature>(77)});
  const auto bytes = finish(b, flatbuf::CreateSchema(b, flatbuf::Endianness::Big, 0, 0, features));
  const SchemaInfo info = Message::parse(bytes, {}, "made by hand").schema_info();
  EXPECT_EQ(info.endianness, Endianness::kBig);
  EXPECT_EQ(info.features, (std::vector<std::int64_t>{2, 77}));
  EXPECT_TRUE(info.schema->fields().empty());
}

TEST(SchemaReader, AnEndiannessThatDoesNotExist) {
  FlatBufferBuilder b;
  const auto bytes = finish(b, flatbuf::CreateSchema(b, static_cast<flatbuf::Endianness>(2)));
  const Message message = Message::parse(bytes, {}, "made by hand");
  EXPECT_THAT(error_of<InvalidDataError>([&] { message.schema(); }), HasSubstr("endianness 2"));
}

TEST(SchemaReader, TenThousandLevelsAreRefusedByName) {
  const std::string error = invalid([](FlatBufferBuilder& b) {
    FieldOffset field = plain(b, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union());
    for (int i = 0; i < 10000; ++i) {
      field = plain(b, flatbuf::Type::Struct_, flatbuf::CreateStruct_(b).Union(), {field});
    }
    return field;
  });
  EXPECT_THAT(error, HasSubstr("nested deeper than 64 levels"));
}

TEST(SchemaReader, TheUnionHasTheFormatsOrdinals) {
  EXPECT_EQ(static_cast<int>(flatbuf::Type::Null), 1);
  EXPECT_EQ(static_cast<int>(flatbuf::Type::Bool), 6);
  EXPECT_EQ(static_cast<int>(flatbuf::Type::Struct_), 13);
  EXPECT_EQ(static_cast<int>(flatbuf::Type::Map), 17);
  EXPECT_EQ(static_cast<int>(flatbuf::Type::LargeList), 21);
  EXPECT_EQ(static_cast<int>(flatbuf::Type::LargeListView), 26);
}

TEST(SchemaReader, TypesThatDontExist) {
  using K = flatbuf::Type;
  const auto of = [](K kind, auto create) {
    return invalid([&](FlatBufferBuilder& b) { return plain(b, kind, create(b).Union()); });
  };
  EXPECT_THAT(of(K::Int, [](auto& b) { return flatbuf::CreateInt(b, 24, true); }), HasSubstr("24 bits"));
  EXPECT_THAT(of(K::Decimal, [](auto& b) { return flatbuf::CreateDecimal(b, 5, 1, 96); }), HasSubstr("96 bits"));
  EXPECT_THAT(of(K::Decimal, [](auto& b) { return flatbuf::CreateDecimal(b, 0, 1, 128); }), HasSubstr("precision"));
  EXPECT_THAT(of(K::Time, [](auto& b) { return flatbuf::CreateTime(b, flatbuf::TimeUnit::SECOND, 16); }),
              HasSubstr("16 bits"));
  EXPECT_NE(of(K::Time, [](auto& b) { return flatbuf::CreateTime(b, flatbuf::TimeUnit::NANOSECOND, 32); }), "");
  EXPECT_THAT(of(K::Timestamp, [](auto& b) { return flatbuf::CreateTimestamp(b, static_cast<flatbuf::TimeUnit>(9)); }),
              HasSubstr("time unit 9"));
  EXPECT_THAT(of(K::Date, [](auto& b) { return flatbuf::CreateDate(b, static_cast<flatbuf::DateUnit>(-1)); }),
              HasSubstr("date unit -1"));
  EXPECT_THAT(
      of(K::FloatingPoint, [](auto& b) { return flatbuf::CreateFloatingPoint(b, static_cast<flatbuf::Precision>(3)); }),
      HasSubstr("precision 3"));
  EXPECT_NE(of(K::FixedSizeBinary, [](auto& b) { return flatbuf::CreateFixedSizeBinary(b, -1); }), "");
  EXPECT_NE(of(K::FixedSizeList, [](auto& b) { return flatbuf::CreateFixedSizeList(b, 2); }), "") << "no child";
  EXPECT_NE(of(K::List, [](auto& b) { return flatbuf::CreateList(b); }), "") << "no child";
  EXPECT_NE(of(K::Map, [](auto& b) { return flatbuf::CreateMap(b); }), "") << "no child";
  EXPECT_NE(of(K::ListView, [](auto& b) { return flatbuf::CreateListView(b); }), "") << "no child";
  EXPECT_THAT(of(K::RunEndEncoded, [](auto& b) { return flatbuf::CreateRunEndEncoded(b); }), HasSubstr("2 child"));
  EXPECT_THAT(
      of(K::Interval, [](auto& b) { return flatbuf::CreateInterval(b, static_cast<flatbuf::IntervalUnit>(3)); }),
      HasSubstr("interval unit 3"));
}

TEST(SchemaReader, FieldWithoutType) {
  EXPECT_THAT(invalid([](FlatBufferBuilder& b) { return flatbuf::CreateField(b); }), HasSubstr("no type"));
  EXPECT_THAT(invalid([](FlatBufferBuilder& b) { return flatbuf::CreateField(b, 0, true, flatbuf::Type::Int); }),
              HasSubstr("no parameters"));
}

TEST(SchemaReader, LeafWithChildren) {
  EXPECT_NE(invalid([](FlatBufferBuilder& b) {
              const auto child = plain(b, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union());
              return plain(b, flatbuf::Type::Utf8, flatbuf::CreateUtf8(b).Union(), {child});
            }),
            "");
}

TEST(SchemaReader, NegativeDictionaryId) {
  EXPECT_THAT(invalid([](FlatBufferBuilder& b) {
                const auto encoding = flatbuf::CreateDictionaryEncoding(b, -1);
                return flatbuf::CreateField(b, 0, true, flatbuf::Type::Utf8, flatbuf::CreateUtf8(b).Union(), encoding);
              }),
              HasSubstr("dictionary id -1"));
}

TEST(SchemaReader, FieldsThatShareADictionaryMustAgreeOnItsType) {
  FlatBufferBuilder b;
  const auto one = flatbuf::CreateDictionaryEncoding(b, 3);
  const auto two = flatbuf::CreateDictionaryEncoding(b, 3);
  const std::vector<FieldOffset> fields{
      flatbuf::CreateField(b, 0, true, flatbuf::Type::Utf8, flatbuf::CreateUtf8(b).Union(), one),
      flatbuf::CreateField(b, 0, true, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union(), two)};
  const auto bytes = finish(b, flatbuf::CreateSchema(b, flatbuf::Endianness::Little, b.CreateVector(fields)));
  const Message message = Message::parse(bytes, {}, "made by hand");
  EXPECT_THAT(error_of<InvalidDataError>([&] { message.schema(); }), HasSubstr("made by hand"));
}

FieldOffset nested(FlatBufferBuilder& b, int depth) {
  FieldOffset out = plain(b, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union());
  for (int i = 1; i < depth; ++i) out = plain(b, flatbuf::Type::Struct_, flatbuf::CreateStruct_(b).Union(), {out});
  return out;
}

TEST(SchemaReader, DepthIsBounded) {
  const Limits limits{.max_depth = 10};
  EXPECT_NE(read_field([](auto& b) { return nested(b, 10); }, limits), nullptr);
  EXPECT_THAT(invalid([](auto& b) { return nested(b, 11); }, limits), HasSubstr("deeper than 10"));
  EXPECT_THAT(invalid([](auto& b) { return nested(b, 5000); }, limits), HasSubstr("deeper than 10"));
}

TEST(SchemaReader, FieldsAreCounted) {
  Limits limits;
  limits.max_fields = 8;
  const auto wide = [](std::size_t n) {
    return [n](FlatBufferBuilder& b) {
      std::vector<FieldOffset> children;
      for (std::size_t i = 0; i < n; ++i) {
        children.push_back(plain(b, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union()));
      }
      return plain(b, flatbuf::Type::Struct_, flatbuf::CreateStruct_(b).Union(), children);
    };
  };
  EXPECT_NE(read_field(wide(7), limits), nullptr);
  EXPECT_THAT(invalid(wide(8), limits), HasSubstr("more than 8 fields"));
}

TEST(SchemaReader, SharedTablesDontUnfoldWithoutBound) {
  // Ten fields per level, all the same table: 10^12 fields in a few hundred bytes.
  EXPECT_NE(invalid([](FlatBufferBuilder& b) {
              FieldOffset out = plain(b, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union());
              for (int i = 0; i < 12; ++i) {
                out = plain(b, flatbuf::Type::Struct_, flatbuf::CreateStruct_(b).Union(), std::vector(10, out));
              }
              return out;
            }),
            "");
}

TEST(SchemaReader, SharedStringsDontMultiplyWithoutBound) {
  // One long name, used by every field: 1000 times 100 kB from 110 kB.
  const Limits limits{.max_metadata_bytes = 1 << 20};
  const auto share = [](FlatBufferBuilder& b) {
    const auto name = b.CreateString(std::string(100'000, 'n'));
    std::vector<FieldOffset> children;
    for (int i = 0; i < 1000; ++i) {
      children.push_back(flatbuf::CreateField(b, name, true, flatbuf::Type::Bool, flatbuf::CreateBool(b).Union()));
    }
    return plain(b, flatbuf::Type::Struct_, flatbuf::CreateStruct_(b).Union(), children);
  };
  EXPECT_THAT(invalid(share, limits), HasSubstr("names and metadata"));
}

TEST(SchemaReader, NamesInErrorsArePrintable) {
  const std::string error = invalid([](FlatBufferBuilder& b) {
    const auto name = b.CreateString(std::string("a\x1b[31m\0b", 8));
    return flatbuf::CreateField(b, name, true, flatbuf::Type::Int);
  });
  EXPECT_THAT(error, HasSubstr("a\\x1b[31m\\x00b"));
}

}  // namespace
}  // namespace crossdock::ipc::testing
