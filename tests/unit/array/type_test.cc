#include "crossdock/array/schema.h"

#include <gtest/gtest.h>

#include <set>

#include "made_array.h"

namespace crossdock::array {
namespace {

TEST(TypeLayout, FirstBufferIsValidityWhereATypeHasOne) {
  for (int id = 0; id < kTypeCount; ++id) {
    Type type;
    type.id = static_cast<TypeId>(id);
    const TypeLayout layout = type_layout(type);
    EXPECT_EQ(layout.has_validity(), layout.n_buffers > 0 && layout.buffers[0] == BufferKind::kValidity);
    if (type.id == TypeId::kSparseUnion || type.id == TypeId::kDenseUnion) {
      EXPECT_EQ(layout.buffers[0], BufferKind::kTypeIds);
    } else if (type.id == TypeId::kNull || type.id == TypeId::kRunEndEncoded) {
      EXPECT_EQ(layout.n_buffers, 0);
    } else {
      ASSERT_GE(layout.n_buffers, 1) << id;
      EXPECT_EQ(layout.buffers[0], BufferKind::kValidity) << id;
    }
  }
}

TEST(TypeLayout, BytesFollowOffsetsAndNestedTypesHaveChildren) {
  const auto of = [](TypeId id, std::int32_t size = 0) {
    Type type;
    type.id = id;
    type.fixed_size = size;
    return type_layout(type);
  };
  EXPECT_EQ(of(TypeId::kUtf8).buffers[1], BufferKind::kOffsets32);
  EXPECT_EQ(of(TypeId::kLargeBinary).buffers[1], BufferKind::kOffsets64);
  EXPECT_EQ(of(TypeId::kLargeBinary).buffers[2], BufferKind::kBytes);
  EXPECT_EQ(of(TypeId::kBool).buffers[1], BufferKind::kBits);
  EXPECT_EQ(of(TypeId::kDecimal256).width, 32);
  EXPECT_EQ(of(TypeId::kFixedSizeBinary, 5).width, 5);
  EXPECT_EQ(of(TypeId::kMap).n_children, 1);
  EXPECT_EQ(of(TypeId::kMap).n_buffers, 2);
  EXPECT_EQ(of(TypeId::kFixedSizeList, 2).n_buffers, 1);
  EXPECT_EQ(of(TypeId::kStruct).n_children, -1);
}

TEST(TypeName, TellsEveryTypeApart) {
  std::set<std::string> names;
  for (int id = 0; id < kTypeCount; ++id) {
    Type type;
    type.id = static_cast<TypeId>(id);
    EXPECT_TRUE(names.insert(type_name(type)).second) << type_name(type);
  }
}

TEST(TypeName, ShowsParameters) {
  Type type;
  type.id = TypeId::kTimestamp;
  type.unit = TimeUnit::kMicro;
  EXPECT_EQ(type_name(type), "timestamp[us]");
  type.timezone = "UTC";
  EXPECT_EQ(type_name(type), "timestamp[us, UTC]");
  type.timezone = "\x1b[31m";
  EXPECT_EQ(type_name(type), "timestamp[us, \\x1b[31m]");
  type.id = TypeId::kDecimal128;
  type.precision = 9;
  type.scale = 2;
  EXPECT_EQ(type_name(type), "decimal128(9, 2)");
}

}  // namespace
}  // namespace crossdock::array
