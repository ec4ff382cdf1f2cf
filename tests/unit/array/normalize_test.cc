#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "allocation_count.h"
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
using ::testing::HasSubstr;

class Normalized : public ArrayTest {
 protected:
  static RecordBatch slice(const std::vector<Field>& fields, std::int64_t start, std::int64_t rows, std::int64_t inner,
                           bool counted = true) {
    ArrowDeviceArray array = test::on_host(test::make_struct(fields, start + rows + 2, inner, counted));
    array.array.offset = start;
    array.array.length = rows;
    return import_batch(std::make_shared<Schema>(fields), &array);
  }
};

/// Every node at offset 0 with its nulls counted, every buffer cut.
void expect_normal(const RecordBatch& batch) {
  ASSERT_TRUE(batch.counts_fit());
  BufferCursor at(batch.variadic_counts);
  for (std::size_t i = 0; i < batch.nodes.size(); ++i) {
    at.enter(batch.schema->nodes()[i]);
    const LayoutNode& layout = batch.schema->nodes()[i];
    const Node& node = batch.nodes[i];
    EXPECT_EQ(node.offset, 0);
    EXPECT_GE(node.null_count, 0);
    for (std::size_t b = 0; b < layout.type.n_buffers; ++b) {
      const BufferView& buffer = batch.buffers[at.first() + b];
      EXPECT_EQ(buffer.data == nullptr, buffer.size == 0) << layout.field->name;
      if (node.length == 0) {
        EXPECT_EQ(buffer.size, 0);
      }
      if (layout.type.buffers[b] == BufferKind::kFixed) {
        EXPECT_EQ(buffer.size, node.length * layout.type.width);
      }
      if (layout.type.buffers[b] == BufferKind::kValidity) {
        EXPECT_EQ(buffer.size, node.null_count > 0 ? (node.length + 7) / 8 : 0) << layout.field->name;
      }
    }
  }
  for (const auto& dictionary : batch.dictionaries) expect_normal(*dictionary);
}

TEST_F(Normalized, KeepsEveryValueOfEverySlice) {
  const std::vector<Field> fields = test::every_type();
  for (const std::int64_t start : {0, 1, 5, 8, 13}) {
    for (const std::int64_t rows : {0, 1, 7, 33}) {
      for (const auto& [inner, offsets] : std::vector<std::pair<std::int64_t, Offsets>>{{0, Offsets::kKeep},
                                                                                        {3, Offsets::kKeep},
                                                                                        {8, Offsets::kKeep},
                                                                                        {0, Offsets::kFromZero},
                                                                                        {3, Offsets::kFromZero}}) {
        RecordBatch batch = slice(fields, start, rows, inner, inner != 3);
        ArrowDeviceArray before;
        export_batch(batch, &before);
        std::int64_t copied = 0;
        RecordBatch normal = normalized(std::move(batch), &copied, offsets);
        expect_normal(normal);
        check_structure(normal);
        std::int64_t again = 0;
        normal = normalized(std::move(normal), &again, offsets);
        EXPECT_EQ(again, 0) << "what is normal stays as it is";
        ArrowDeviceArray after;
        export_batch(std::move(normal), &after);
        ASSERT_EQ(test::rows_text(fields, after.array, 0, rows), test::rows_text(fields, before.array, 0, rows))
            << start << " " << rows << " " << inner;
        test::release(&before);
        test::release(&after);
      }
    }
  }
}

TEST_F(Normalized, NothingToDoCostsNoAllocation) {
  std::int64_t copied = 0;
  RecordBatch batch = normalized(slice(test::every_type(), 0, 20, 0), &copied);
  const std::vector<std::shared_ptr<const RecordBatch>> dictionaries = batch.dictionaries;
  copied = 0;
  const std::int64_t before = test::allocations();
  batch = normalized(std::move(batch), &copied);
  EXPECT_EQ(test::allocations(), before);
  EXPECT_EQ(copied, 0);
  EXPECT_EQ(batch.dictionaries, dictionaries) << "a normal dictionary keeps its identity";
}

TEST_F(Normalized, WholeBytesAreNotCopied) {
  std::int64_t copied = 0;
  const std::vector<Field> fields = {field("b", TypeId::kBool)};
  RecordBatch batch = slice(fields, 16, 9, 0);
  const auto* bits = static_cast<const std::byte*>(batch.buffers[1].data);
  batch = normalized(std::move(batch), &copied);
  EXPECT_EQ(copied, 0);
  EXPECT_EQ(batch.buffers[1].data, bits + 2);
  EXPECT_EQ(batch.buffers[1].size, 2);
  EXPECT_EQ(batch.nodes[0].null_count, 3) << "of 16 to 24, where 16, 19 and 22 are null";
}

TEST_F(Normalized, CopiedBitmapsAreCountedAlignedAndOwned) {
  std::int64_t copied = 100;
  RecordBatch batch = normalized(slice({field("b", TypeId::kBool)}, 3, 20, 0), &copied);
  EXPECT_EQ(copied, 100 + 3 + 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.buffers[0].data) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.buffers[1].data) % 64, 0u);
  EXPECT_GT(test::live_arrays(), 0) << "the new owner keeps the old one";
}

TEST_F(Normalized, OffsetsMayStartAboveZero) {
  const std::vector<Field> fields = {field("l", TypeId::kList, {field("item", TypeId::kInt32)})};
  RecordBatch batch = slice(fields, 4, 3, 0);
  const auto* offsets = static_cast<const std::int32_t*>(batch.buffers[1].data);
  std::int64_t copied = 0;
  batch = normalized(std::move(batch), &copied);
  EXPECT_EQ(batch.buffers[1].data, offsets + 4);
  EXPECT_EQ(batch.buffers[1].size, 4 * 4);
  EXPECT_GT(offsets[4], 0);
  EXPECT_EQ(batch.nodes[1].length, offsets[7]) << "cut at the end only";
}

TEST_F(Normalized, OffsetsFromZeroCutWhatTheyPointIntoAtBothEnds) {
  const std::vector<Field> fields = {field("l", TypeId::kList, {field("item", TypeId::kInt32)}),
                                     field("u", TypeId::kUtf8)};
  RecordBatch batch = slice(fields, 4, 3, 0);
  const auto* lists = static_cast<const std::int32_t*>(batch.buffers[1].data);
  const auto* items = static_cast<const std::int32_t*>(batch.buffers[3].data);
  const auto* texts = static_cast<const std::int32_t*>(batch.buffers[5].data);
  const auto* bytes = static_cast<const char*>(batch.buffers[6].data);
  ASSERT_GT(lists[4], 0);
  ASSERT_GT(texts[4], 0);
  std::int64_t copied = 0;
  batch = normalized(std::move(batch), &copied, Offsets::kFromZero);
  EXPECT_EQ(static_cast<const std::int32_t*>(batch.buffers[1].data)[0], 0);
  EXPECT_EQ(static_cast<const std::int32_t*>(batch.buffers[1].data)[3], lists[7] - lists[4]);
  EXPECT_EQ(batch.nodes[1].length, lists[7] - lists[4]);
  EXPECT_EQ(batch.buffers[3].data, items + lists[4]);
  EXPECT_EQ(static_cast<const std::int32_t*>(batch.buffers[5].data)[0], 0);
  EXPECT_EQ(batch.buffers[6].data, bytes + texts[4]);
  EXPECT_EQ(batch.buffers[6].size, texts[7] - texts[4]);
}

TEST_F(Normalized, UnknownNullsAreCountedAndKnownOnesKept) {
  std::int64_t copied = 0;
  RecordBatch batch = slice({field("i", TypeId::kInt8)}, 0, 12, 0, false);
  EXPECT_EQ(batch.nodes[0].null_count, -1);
  EXPECT_EQ(normalized(std::move(batch), &copied).nodes[0].null_count, 4);
  batch = slice({field("i", TypeId::kInt8)}, 0, 12, 0, true);
  batch.nodes[0].length = batch.num_rows = 12;
  batch.nodes[0].null_count = 7;  // The producer's word, for exactly these elements.
  EXPECT_EQ(normalized(std::move(batch), &copied).nodes[0].null_count, 7);
}

TEST_F(Normalized, RefusesInnerOffsetsThatLeaveTheirData) {
  // The list's own first and last offsets are fine; the slice ends at one between them that isn't.
  const std::vector<Field> fields = {field(
      "s", TypeId::kStruct, {field("u", TypeId::kUtf8), field("l", TypeId::kList, {field("item", TypeId::kInt8)})})};
  for (const std::size_t offsets_buffer : {2u, 5u}) {
    for (const std::int32_t bad : {1000000, -1}) {
      RecordBatch batch = slice(fields, 0, 10, 0);
      std::vector<std::int32_t> offsets(11);
      ASSERT_GE(batch.buffers[offsets_buffer].size, 44);
      std::memcpy(offsets.data(), batch.buffers[offsets_buffer].data, 44);
      offsets[4] = bad;
      batch.nodes[0].length = 4;
      batch.nodes[0].null_count = -1;
      batch.num_rows = 4;
      batch.buffers[offsets_buffer] = {offsets.data(), 44};
      for (const std::size_t node : {1u, 2u}) {
        batch.nodes[node].length = 10;
        batch.nodes[node].null_count = -1;
      }
      std::int64_t copied = 0;
      EXPECT_THAT(message_of<InvalidDataError>([&] { normalized(batch, &copied); }), HasSubstr("field \"s."));
    }
  }
}

TEST_F(Normalized, RefusesDevicesAndBrokenBatches) {
  std::int64_t copied = 0;
  RecordBatch batch = slice({field("i", TypeId::kInt8)}, 0, 4, 0);
  batch.buffers[1].size = 1;
  EXPECT_THROW(normalized(batch, &copied), InvalidDataError);
  batch.device = {.type = device::DeviceType::kCuda, .id = 0};
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { normalized(batch, &copied); }),
              HasSubstr("the batch is on cuda:0"));
}

TEST_F(Normalized, RunsAreCutAndTheirEndsCountAnew) {
  const std::vector<Field> fields = {test::run_end_encoded("r", TypeId::kInt16, field("values", TypeId::kInt32))};
  // Runs of two: elements 5 to 8 are in runs 2 to 4.
  std::int64_t copied = 0;
  RecordBatch batch = slice(fields, 5, 4, 0);
  const auto* values = static_cast<const std::byte*>(batch.buffers[3].data);
  batch = normalized(std::move(batch), &copied);
  EXPECT_EQ(batch.nodes[0].offset, 0);
  EXPECT_EQ(batch.nodes[1].length, 3);
  EXPECT_EQ(batch.nodes[2].length, 3);
  ASSERT_EQ(batch.buffers[1].size, 3 * 2);
  EXPECT_THAT(std::span(static_cast<const std::int16_t*>(batch.buffers[1].data), 3), ::testing::ElementsAre(1, 3, 4));
  EXPECT_EQ(batch.buffers[3].data, values + 2 * 4) << "values stay where they are";
  EXPECT_GE(copied, 3 * 2) << "run ends that are written anew count as copied";
}

TEST_F(Normalized, RunsFromTheFirstElementOnAreNotCopied) {
  const std::vector<Field> fields = {test::run_end_encoded("r", TypeId::kInt64, field("values", TypeId::kInt32))};
  std::int64_t copied = 0;
  RecordBatch batch = slice(fields, 0, 5, 0);
  const void* ends = batch.buffers[1].data;
  batch = normalized(std::move(batch), &copied);
  EXPECT_EQ(batch.buffers[1].data, ends);
  EXPECT_EQ(batch.nodes[1].length, 3) << "what is after the last run needed is cut off";
  EXPECT_EQ(copied, 0);
}

TEST_F(Normalized, NullRunEndsAreRefused) {
  const std::vector<Field> fields = {test::run_end_encoded("r", TypeId::kInt32, field("values", TypeId::kNull))};
  RecordBatch batch = slice(fields, 0, 5, 0);
  const std::uint8_t bits = 0b101;
  batch.buffers[0] = {&bits, 1};
  batch.nodes[1].null_count = -1;
  std::int64_t copied = 0;
  EXPECT_THAT(message_of<InvalidDataError>([&] { normalized(batch, &copied); }), HasSubstr("run ends are null"));
}

TEST_F(Normalized, ViewsKeepTheirVariadicBuffers) {
  const std::vector<Field> fields = {field("v", TypeId::kUtf8View)};
  RecordBatch batch = slice(fields, 4, 3, 0);
  const auto* views = static_cast<const std::byte*>(batch.buffers[1].data);
  const BufferView last = batch.buffers[3];
  std::int64_t copied = 0;
  batch = normalized(std::move(batch), &copied, Offsets::kFromZero);
  EXPECT_EQ(batch.buffers[1].data, views + 4 * 16);
  EXPECT_EQ(batch.buffers[1].size, 3 * 16);
  EXPECT_EQ(batch.buffers[3].data, last.data);
  EXPECT_EQ(batch.buffers[3].size, last.size);
  EXPECT_EQ(batch.variadic_counts, (std::vector<std::int64_t>{2}));
}

TEST_F(Normalized, ChildrenOfDenseUnionsAndListViewsAreCutForCopies) {
  const std::vector<Field> fields = {
      test::union_of("u", TypeId::kDenseUnion, {0}, {field("a", TypeId::kInt64)}),
      field("l", TypeId::kListView, {field("item", TypeId::kInt64)}),
  };
  // Of the union, elements 20 to 23 are 11, 11, 12, 12 of the child; of the list view, 22 shows [6, 8).
  std::int64_t copied = 0;
  RecordBatch kept = normalized(slice(fields, 20, 4, 0), &copied);
  EXPECT_GT(kept.nodes[1].length, 4) << "without a copy the child stays whole";
  EXPECT_EQ(kept.nodes[3].length, 11);
  RecordBatch cut = normalized(slice(fields, 20, 4, 0), &copied, Offsets::kFromZero);
  EXPECT_EQ(cut.nodes[1].length, 2);
  EXPECT_THAT(std::span(static_cast<const std::int32_t*>(cut.buffers[1].data), 4), ::testing::ElementsAre(0, 0, 1, 1));
  EXPECT_LT(cut.nodes[3].length, 11);
  check_full(cut);
}

TEST_F(Normalized, WildOffsetsLeaveTheirChildWhole) {
  const std::vector<Field> fields = {
      test::union_of("u", TypeId::kDenseUnion, {0}, {field("a", TypeId::kInt64)}),
      field("l", TypeId::kLargeListView, {field("item", TypeId::kInt64)}),
  };
  for (const std::int64_t wild :
       {std::int64_t{-1}, std::int64_t{1} << 30, std::numeric_limits<std::int64_t>::min() + 99}) {
    RecordBatch batch = slice(fields, 20, 4, 0);
    std::vector<std::int32_t> offsets(26, static_cast<std::int32_t>(wild < 0 ? -1 : wild));
    std::vector<std::int64_t> starts(26, wild);
    std::vector<std::int64_t> sizes(26, wild);
    batch.buffers[1].data = offsets.data();
    batch.buffers[5].data = starts.data();
    batch.buffers[6].data = sizes.data();
    std::int64_t copied = 0;
    const std::int64_t child = batch.nodes[1].length;
    batch = normalized(std::move(batch), &copied, Offsets::kFromZero);
    EXPECT_EQ(batch.nodes[1].length, child);
    EXPECT_EQ(batch.nodes[3].length, 11);
    EXPECT_EQ(batch.buffers[1].data, offsets.data() + 20) << "and the wild offsets as they are";
  }
}

}  // namespace
}  // namespace crossdock::array
