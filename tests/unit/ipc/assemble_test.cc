#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using ::testing::HasSubstr;

BatchHeader header_of(const array::RecordBatch& batch) {
  Encoder encoder;
  BatchHeader out;
  Message::parse(encoder.record_batch(batch), {}, "round trip").batch(*batch.schema, &out);
  return out;
}

TEST(Assemble, GivesTheBatchAsItWas) {
  for (const bool nulls : {false, true}) {
    const array::RecordBatch batch = make_batch(every_type(), 11, nulls);
    const array::RecordBatch back =
        assemble(batch.schema, header_of(batch), batch.buffers, batch.dictionaries, batch.owner);
    EXPECT_EQ(back.num_rows, 11);
    EXPECT_EQ(back.schema, batch.schema);
    EXPECT_EQ(back.owner, batch.owner);
    EXPECT_EQ(back.dictionaries, batch.dictionaries);
    ASSERT_EQ(back.buffers.size(), batch.buffers.size());
    for (std::size_t i = 0; i < back.buffers.size(); ++i) {
      EXPECT_EQ(back.buffers[i].data, batch.buffers[i].data);
      EXPECT_EQ(back.buffers[i].size, batch.buffers[i].size);
    }
  }
}

TEST(Assemble, EmptyValidityIsAbsent) {
  array::RecordBatch batch = make_batch(floats(1), 4);
  const BatchHeader header = header_of(batch);
  const double somewhere = 0;
  batch.buffers[0] = {&somewhere, 0};
  EXPECT_EQ(assemble(batch.schema, header, batch.buffers, {}, nullptr).buffers[0].data, nullptr);
}

TEST(Assemble, ViewsAreCutToTheirLengths) {
  const array::RecordBatch batch = make_batch(floats(1), 4);
  auto buffers = batch.buffers;
  buffers[1].size += 32;
  EXPECT_EQ(assemble(batch.schema, header_of(batch), buffers, {}, nullptr).buffers[1].size, 32);
}

TEST(Assemble, DisagreementIsRefused) {
  const array::RecordBatch batch = make_batch(every_type(), 3);
  const BatchHeader header = header_of(batch);
  const auto error = [&](const BatchHeader& h, const std::vector<array::BufferView>& buffers,
                         const std::vector<std::shared_ptr<const array::RecordBatch>>& dictionaries) {
    return error_of<InvalidArgumentError>([&] { assemble(batch.schema, h, buffers, dictionaries, nullptr); });
  };
  EXPECT_EQ(error(header, batch.buffers, batch.dictionaries), "");
  EXPECT_THAT(error(header, batch.buffers, {}), HasSubstr("0 dictionaries"));
  EXPECT_THAT(error(header, {}, batch.dictionaries), HasSubstr("0 buffers"));
  EXPECT_THAT(error({}, batch.buffers, batch.dictionaries), HasSubstr("0 nodes"));
  auto shorter = batch.buffers;
  shorter.back().size -= 1;
  EXPECT_THAT(error(header, shorter, batch.dictionaries), HasSubstr("the metadata says"));
  auto absent = batch.buffers;
  absent.back().data = nullptr;
  EXPECT_THAT(error(header, absent, batch.dictionaries), HasSubstr("the metadata says"));
}

}  // namespace
}  // namespace crossdock::ipc::testing
