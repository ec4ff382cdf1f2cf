#include "array/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::ArrayTest;
using test::field;
using ::testing::HasSubstr;

class Sizes : public ArrayTest {
 protected:
  /// As it comes where somebody still works on it: nobody may read it.
  static RecordBatch pending(const std::vector<Field>& fields, std::int64_t rows) {
    static int native = 0;
    ArrowDeviceArray array = test::on_host(test::make_struct(fields, rows, 0, true));
    array.device_type = ARROW_DEVICE_CUDA_HOST;
    array.sync_event = &native;
    return import_batch(std::make_shared<Schema>(fields), &array);
  }
  static RecordBatch finished(RecordBatch batch) {
    batch.event = {};
    for (RecordBatch* dictionary : own_dictionaries(&batch)) dictionary->event = {};
    return batch;
  }
};

TEST_F(Sizes, AreReadOnceTheMemoryMayBe) {
  for (const Field& of : test::every_type()) {
    SCOPED_TRACE(type_name(of.type));
    const std::vector<Field> fields = {of};
    ArrowDeviceArray ready = test::on_host(test::make_struct(fields, 7, 0, true));
    const RecordBatch expected = import_batch(std::make_shared<Schema>(fields), &ready);
    RecordBatch batch = pending(fields, 7);
    EXPECT_THROW(read_sizes(&batch), InvalidArgumentError);
    batch = finished(std::move(batch));
    read_sizes(&batch);
    EXPECT_TRUE(batch.sizes_known());
    ASSERT_EQ(batch.buffers.size(), expected.buffers.size());
    for (std::size_t i = 0; i < batch.buffers.size(); ++i)
      EXPECT_EQ(batch.buffers[i].size, expected.buffers[i].size) << i;
    for (std::size_t slot = 0; slot < batch.dictionaries.size(); ++slot) {
      EXPECT_EQ(batch.dictionaries[slot]->nbytes(), expected.dictionaries[slot]->nbytes());
    }
  }
}

TEST_F(Sizes, ABadOneIsNamed) {
  const std::vector<Field> fields = {field("a", TypeId::kInt8), field("u", TypeId::kUtf8),
                                     field("v", TypeId::kBinaryView)};
  RecordBatch batch = pending(fields, 3);
  const std::vector<SizesAt> unknown = unknown_sizes(&batch);
  ASSERT_EQ(unknown.size(), 2u);
  EXPECT_EQ(unknown[0].nbytes(), 4);
  const std::int32_t negative = -5;
  EXPECT_THAT(message_of<InvalidDataError>([&] { set_sizes(unknown[0], &negative); }),
              HasSubstr("field \"u\": its bytes have a size of -5"));
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(unknown[1].count), -1);
  EXPECT_THAT(message_of<InvalidDataError>([&] { set_sizes(unknown[1], numbers.data()); }), HasSubstr("field \"v\""));
}

TEST_F(Sizes, WhatCouldNotBeCheckedOnImportIsChecked) {
  const std::vector<Field> fields = {field("l", TypeId::kList, {field("item", TypeId::kInt8)})};
  static int native = 0;
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, 3, 0, true));
  array.device_type = ARROW_DEVICE_CUDA_HOST;
  array.sync_event = &native;
  array.array.children[0]->children[0]->length = 0;
  array.array.children[0]->children[0]->null_count = 0;
  RecordBatch batch = finished(import_batch(std::make_shared<Schema>(fields), &array));
  EXPECT_THAT(message_of<InvalidDataError>([&] { read_sizes(&batch); }), HasSubstr("its parent needs"));
}

TEST_F(Sizes, ADictionaryThatIsSharedStaysShared) {
  const std::vector<Field> fields = {test::dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8)),
                                     test::dictionary_of("e", TypeId::kInt8, field("", TypeId::kUtf8))};
  RecordBatch batch = pending(fields, 3);
  batch.dictionaries[1] = batch.dictionaries[0];
  const std::shared_ptr<const RecordBatch> before = batch.dictionaries[0];
  EXPECT_EQ(own_dictionaries(&batch).size(), 1u);
  EXPECT_NE(batch.dictionaries[0], before);
  EXPECT_EQ(batch.dictionaries[0], batch.dictionaries[1]);
  EXPECT_EQ(unknown_sizes(&batch).size(), 1u);
  EXPECT_FALSE(before->sizes_known());
}

}  // namespace
}  // namespace crossdock::array
