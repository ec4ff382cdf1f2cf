#include "ipc/realign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::BufferKind;
using ::testing::HasSubstr;

std::uint64_t address_of(const array::BufferView& view) { return reinterpret_cast<std::uintptr_t>(view.data); }

/// A batch of every type whose body is packed at 64 bytes, at an address `shift` past a multiple of 64.
struct Shifted {
  std::shared_ptr<const array::Schema> schema = every_type();
  BatchHeader header;
  std::shared_ptr<std::byte> body;
  std::vector<array::BufferView> views;

  explicit Shifted(std::size_t shift) {
    Encoder encoder;
    Message::parse(encoder.record_batch(make_batch(schema, 9, true)), {}, "a batch").batch(*schema, &header);
    const auto size = static_cast<std::size_t>(header.body_length) + shift;
    body.reset(static_cast<std::byte*>(std::aligned_alloc(64, align_up(size, 64))), std::free);
    std::mt19937 random(3);
    for (std::size_t i = 0; i < size; ++i) body.get()[i] = static_cast<std::byte>(random());
    for (const BufferRange& range : header.buffers) {
      views.push_back(range.length == 0 ? array::BufferView{}
                                        : array::BufferView{body.get() + shift + static_cast<std::size_t>(range.offset),
                                                            range.length});
    }
  }
};

TEST(ElementAlignment, IsThatOfTheNumbers) {
  using array::element_alignment;
  for (const std::int32_t width : {0, 1, 3, 7}) EXPECT_EQ(element_alignment(BufferKind::kFixed, width), 1u) << width;
  EXPECT_EQ(element_alignment(BufferKind::kFixed, 2), 2u);
  EXPECT_EQ(element_alignment(BufferKind::kFixed, 4), 4u);
  for (const std::int32_t width : {8, 16, 32}) EXPECT_EQ(element_alignment(BufferKind::kFixed, width), 8u) << width;
  for (const BufferKind kind : {BufferKind::kValidity, BufferKind::kBits, BufferKind::kBytes, BufferKind::kTypeIds}) {
    EXPECT_EQ(element_alignment(kind, 0), 1u);
  }
  for (const BufferKind kind : {BufferKind::kOffsets32, BufferKind::kUnionOffsets, BufferKind::kListViewSizes32}) {
    EXPECT_EQ(element_alignment(kind, 0), 4u);
  }
  for (const BufferKind kind : {BufferKind::kOffsets64, BufferKind::kListViewOffsets64, BufferKind::kViews}) {
    EXPECT_EQ(element_alignment(kind, 0), 8u);
  }
}

TEST(Realigner, MovesWhatHasToBeMovedAndNothingElse) {
  Realigner realigner;
  for (const std::size_t shift : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
    Shifted batch(shift);
    const std::vector<array::BufferView> before = batch.views;
    const auto owner = realigner.realign(*batch.schema, batch.header, batch.body, "a batch", &batch.views);
    EXPECT_EQ(owner == batch.body, shift % 8 == 0) << shift;
    array::BufferCursor at(batch.header.variadic_counts);
    for (const array::LayoutNode& node : batch.schema->nodes()) {
      at.enter(node);
      for (std::size_t i = at.first(); i < at.end(); ++i) {
        const bool variadic = i - at.first() >= node.type.n_buffers;
        const BufferKind kind = variadic ? BufferKind::kBytes : node.type.buffers[i - at.first()];
        const std::uint64_t alignment = array::element_alignment(kind, node.type.width);
        ASSERT_EQ(address_of(batch.views[i]) % alignment, 0u) << node.field->name;
        ASSERT_EQ(batch.views[i].size, before[i].size);
        if (before[i].size == 0) continue;
        ASSERT_EQ(batch.views[i].data == before[i].data, address_of(before[i]) % alignment == 0) << node.field->name;
        ASSERT_EQ(std::memcmp(batch.views[i].data, before[i].data, static_cast<std::size_t>(before[i].size)), 0);
      }
    }
  }
}

TEST(Realigner, CopiesLiveAsLongAsTheirBatch) {
  Shifted batch(4);
  std::shared_ptr<const void> owner;
  {
    Realigner realigner;
    owner = realigner.realign(*batch.schema, batch.header, batch.body, "a batch", &batch.views);
  }
  batch.body.reset();
  std::size_t sum = 0;
  for (const array::BufferView& view : batch.views) {
    for (std::int64_t i = 0; i < view.size; ++i)
      sum += std::to_integer<std::size_t>(static_cast<const std::byte*>(view.data)[i]);
  }
  EXPECT_GT(sum, 0u);
}

TEST(Realigner, CopiesAreLimited) {
  Shifted batch(1);
  Realigner realigner({.max_decompressed_bytes = 1000});
  EXPECT_THAT(error_of<InvalidDataError>(
                  [&] { realigner.realign(*batch.schema, batch.header, batch.body, "a batch", &batch.views); }),
              ::testing::AllOf(::testing::StartsWith("a batch: "), HasSubstr("limit of 1000 bytes")));
}

}  // namespace
}  // namespace crossdock::ipc::testing
