#include "crossdock/array/column_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::ArrayTest;
using test::field;
using ::testing::HasSubstr;

class ColumnViews : public ArrayTest {
 protected:
  static RecordBatch made(const std::vector<Field>& fields, std::int64_t length, std::int64_t offset) {
    ArrowDeviceArray array = test::on_host(test::make_struct(fields, length, offset, true));
    return import_batch(std::make_shared<Schema>(fields), &array);
  }
};

/// Reads everything that the column's type has, as deep as it goes. Returns the number of elements that it read.
std::int64_t read_all(const ColumnView& column, std::int64_t start, std::int64_t length) {
  std::int64_t read = 0;
  for (std::int64_t i = start; i < start + length; ++i) {
    ++read;
    if (!column.is_valid(i)) continue;
    if (column.is_dictionary()) {
      read += read_all(column.values(), column.index_of_value(i), 1);
      continue;
    }
    switch (column.id()) {
      case TypeId::kNull: break;
      case TypeId::kBool: static_cast<void>(column.boolean(i)); break;
      case TypeId::kStruct:
        for (std::size_t c = 0; c < column.n_children(); ++c) read += read_all(column.child(c), i, 1);
        break;
      case TypeId::kList:
      case TypeId::kLargeList:
      case TypeId::kListView:
      case TypeId::kLargeListView:
      case TypeId::kFixedSizeList:
      case TypeId::kMap: {
        const ElementRange range = column.elements(i);
        read += read_all(column.child(0), range.start, range.length);
        break;
      }
      case TypeId::kSparseUnion:
      case TypeId::kDenseUnion:
      case TypeId::kRunEndEncoded: {
        const ElementPlace place = column.place(i);
        read += read_all(column.child(static_cast<std::size_t>(place.child)), place.index, 1);
        break;
      }
      default: static_cast<void>(column.bytes(i)); break;
    }
  }
  return read;
}

TEST_F(ColumnViews, ReadEveryTypeWithAndWithoutAnOffset) {
  const std::vector<Field> fields = test::every_type();
  for (const std::int64_t offset : {0, 3}) {
    const RecordBatch batch = made(fields, 15, offset);
    for (std::size_t c = 0; c < fields.size(); ++c) {
      const ColumnView column(batch, c);
      SCOPED_TRACE(column.field().name);
      EXPECT_EQ(column.field(), batch.schema->fields()[c]);
      EXPECT_EQ(column.length(), 15);
      EXPECT_GE(read_all(column, 0, 15), 15);
      std::int64_t nulls = 0;
      for (std::int64_t i = 0; i < 15; ++i) nulls += column.is_valid(i) ? 0 : 1;
      EXPECT_EQ(column.null_count(), nulls);
      const ColumnView part = column.slice(4, 7);
      EXPECT_EQ(part.length(), 7);
      std::int64_t part_nulls = 0;
      for (std::int64_t i = 0; i < 7; ++i) {
        EXPECT_EQ(part.is_valid(i), column.is_valid(i + 4));
        part_nulls += part.is_valid(i) ? 0 : 1;
      }
      EXPECT_EQ(part.null_count(), part_nulls);
    }
  }
}

TEST_F(ColumnViews, NumbersAndTexts) {
  const RecordBatch batch = made({field("n", TypeId::kInt32), field("s", TypeId::kUtf8)}, 6, 1);
  const ColumnView numbers(batch, 0);
  const ColumnView texts(batch, 1);
  const auto* const values = static_cast<const std::int32_t*>(batch.buffers[1].data) + batch.nodes[0].offset;
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(numbers.value<std::int32_t>(i), values[i]);
    EXPECT_EQ(numbers.bytes(i).size(), sizeof(std::int32_t));
    EXPECT_LE(texts.bytes(i).size(), static_cast<std::size_t>(batch.buffers[4].size));
  }
}

TEST_F(ColumnViews, WhatIsNotThereIsRefused) {
  const RecordBatch batch = made({field("n", TypeId::kInt32), field("s", TypeId::kUtf8)}, 6, 0);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { ColumnView(batch, 2); }), HasSubstr("no column 2 among 2"));
  const ColumnView column(batch, 0);
  for (const std::int64_t index : {std::int64_t{-1}, std::int64_t{6}, INT64_MIN, INT64_MAX}) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { static_cast<void>(column.value<std::int32_t>(index)); }),
                HasSubstr("out of range: the column has 6"));
    EXPECT_THROW(static_cast<void>(column.is_valid(index)), InvalidArgumentError);
  }
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { static_cast<void>(column.value<std::int64_t>(0)); }),
              HasSubstr("elements of another size"));
  EXPECT_THROW(static_cast<void>(column.boolean(0)), InvalidArgumentError);
  EXPECT_THROW(static_cast<void>(column.elements(0)), InvalidArgumentError);
  EXPECT_THROW(static_cast<void>(column.place(0)), InvalidArgumentError);
  EXPECT_THROW(static_cast<void>(column.values()), InvalidArgumentError);
  EXPECT_THROW(static_cast<void>(column.child(0)), InvalidArgumentError);
  EXPECT_THROW(static_cast<void>(column.slice(3, 4)), InvalidArgumentError);
  EXPECT_THROW(static_cast<void>(column.slice(-1, 1)), InvalidArgumentError);
  EXPECT_THROW(static_cast<void>(column.slice(INT64_MAX, INT64_MAX)), InvalidArgumentError);
  EXPECT_EQ(column.slice(6, 0).length(), 0);
}

TEST_F(ColumnViews, OffsetsThatPointElsewhereAreErrors) {
  const RecordBatch batch = made({field("s", TypeId::kUtf8)}, 6, 0);
  auto* const offsets = static_cast<std::int32_t*>(const_cast<void*>(batch.buffers[1].data));
  const std::int32_t kept = offsets[3];
  const ColumnView column(batch, 0);
  for (const std::int32_t wrong : {-1, INT32_MAX, INT32_MIN}) {
    offsets[3] = wrong;
    EXPECT_THAT(message_of<InvalidDataError>([&] { static_cast<void>(column.bytes(3)); }),
                HasSubstr("field \"s\": element 3 is damaged"));
  }
  offsets[3] = kept;
  static_cast<void>(column.bytes(3));
}

TEST_F(ColumnViews, MemoryThatTheHostCannotReadIsRefused) {
  RecordBatch batch = made({field("n", TypeId::kInt32)}, 6, 0);
  batch.device = {device::DeviceType::kCuda, 0};
  EXPECT_THROW(ColumnView(batch, 0), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::array
