#include "ipc/dictionary_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::TypeId;
using ::testing::HasSubstr;

/// Values of one int32 column.
array::RecordBatch numbers(const std::shared_ptr<const array::Schema>& schema, std::vector<std::int32_t> values) {
  const auto memory = std::make_shared<std::vector<std::int32_t>>(std::move(values));
  array::RecordBatch batch;
  batch.schema = schema;
  batch.num_rows = static_cast<std::int64_t>(memory->size());
  batch.nodes = {{batch.num_rows, 0, 0}};
  batch.buffers = {{}, {memory->data(), batch.num_rows * 4}};
  batch.dictionaries.resize(schema->dictionaries().size());
  batch.owner = memory;
  return batch;
}

std::vector<std::int32_t> values_of(const array::RecordBatch& batch) {
  const auto* data = static_cast<const std::int32_t*>(batch.buffers[1].data);
  return {data, data + batch.num_rows};
}

struct Plain {
  std::shared_ptr<const array::Schema> schema =
      std::make_shared<const array::Schema>(std::vector{dictionary("d", TypeId::kInt8, field("", TypeId::kInt32), 3)});
  std::shared_ptr<const array::Schema> values = schema->dictionaries()[0].values;
};

TEST(DictionaryStore, GivesWhatHasCome) {
  const Plain plain;
  DictionaryStore store;
  EXPECT_EQ(store.for_schema(*plain.schema), (std::vector<std::shared_ptr<const array::RecordBatch>>{nullptr}));
  store.put(3, numbers(plain.values, {1, 2}), false);
  const auto first = store.for_schema(*plain.schema)[0];
  EXPECT_EQ(values_of(*first), (std::vector{1, 2}));
  EXPECT_EQ(store.for_schema(*plain.schema)[0], first) << "the same object again";
  store.put(3, numbers(plain.values, {7}), false);
  EXPECT_EQ(values_of(*store.for_schema(*plain.schema)[0]), (std::vector{7}));
  EXPECT_EQ(values_of(*first), (std::vector{1, 2})) << "earlier batches keep theirs";
}

TEST(DictionaryStore, DeltasAreAppended) {
  const Plain plain;
  DictionaryStore store;
  store.put(3, numbers(plain.values, {1, 2}), false);
  const auto first = store.for_schema(*plain.schema)[0];
  store.put(3, numbers(plain.values, {}), true);
  store.put(3, numbers(plain.values, {3}), true);
  store.put(3, numbers(plain.values, {4, 5}), true);
  EXPECT_EQ(values_of(*store.for_schema(*plain.schema)[0]), (std::vector{1, 2, 3, 4, 5}));
  EXPECT_EQ(values_of(*first), (std::vector{1, 2}));
  store.put(3, numbers(plain.values, {9}), false);
  EXPECT_EQ(values_of(*store.for_schema(*plain.schema)[0]), (std::vector{9}));
}

TEST(DictionaryStore, DeltasAreBounded) {
  const Plain plain;
  Limits limits;
  limits.max_decompressed_bytes = 20;
  DictionaryStore store(limits);
  store.put(3, numbers(plain.values, {1, 2}), false);
  store.put(3, numbers(plain.values, {3, 4, 5}), true);
  EXPECT_THROW(store.put(3, numbers(plain.values, {6}), true), InvalidDataError);
  store.put(3, numbers(plain.values, {7, 8, 9}), false);  // whole again: what came before counts no more
  store.put(3, numbers(plain.values, {1}), true);
  EXPECT_EQ(store.for_schema(*plain.schema)[0]->num_rows, 4);
}

TEST(DictionaryStore, ADeltaOfNothing) {
  const Plain plain;
  DictionaryStore store;
  EXPECT_THAT(error_of<InvalidDataError>([&] { store.put(3, numbers(plain.values, {1}), true); }),
              HasSubstr("was not sent before it"));
}

TEST(DictionaryStore, ADeltaAfterItsInnerDictionaryWasReplaced) {
  array::Field outer =
      field("", array::Type{.id = TypeId::kList}, {dictionary("item", TypeId::kInt8, field("", TypeId::kInt32), 1)});
  const auto schema =
      std::make_shared<const array::Schema>(std::vector{dictionary("d", TypeId::kInt8, std::move(outer), 0)});
  const auto values = schema->dictionaries()[0].values;
  const auto inner = values->dictionaries()[0].values;
  DictionaryStore store;
  store.put(1, numbers(inner, {1}), false);
  store.put(0, make_batch(values, 2), false);
  store.put(1, numbers(inner, {2}), true);
  store.put(0, make_batch(values, 2), true);  // the inner one has grown: what was said holds
  EXPECT_EQ(store.for_schema(*schema)[0]->num_rows, 4);
  store.put(1, numbers(inner, {5}), false);
  EXPECT_THAT(error_of<UnsupportedTypeError>([&] { store.put(0, make_batch(values, 1), true); }),
              HasSubstr("was replaced"));
  store.put(0, make_batch(values, 1), false);
  EXPECT_EQ(store.for_schema(*schema)[0]->num_rows, 1);
}

TEST(DictionaryStore, EveryTypeIsPutTogether) {
  const auto types = every_type();
  for (const array::Field& top : types->fields()) {
    SCOPED_TRACE(top.name);
    // Samples are zeros: run ends can't be.
    if (top.dictionary || top.type.id == TypeId::kRunEndEncoded) continue;
    const auto schema = std::make_shared<const array::Schema>(std::vector{dictionary("d", TypeId::kInt32, top, 1000)});
    const auto values = schema->dictionaries()[0].values;
    DictionaryStore store;
    store.put(1000, make_batch(values, 3, true), false);
    store.put(1000, make_batch(values, 2), true);
    store.put(1000, make_batch(values, 9, true), true);
    const auto together = store.for_schema(*schema)[0];
    EXPECT_EQ(together->num_rows, 14) << top.name;
    array::check_structure(*together);
  }
}

}  // namespace
}  // namespace crossdock::ipc::testing
