#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

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

RecordBatch make_batch(const std::vector<Field>& fields, std::int64_t length, std::int64_t offset = 0) {
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, length, offset, true));
  return import_batch(std::make_shared<Schema>(fields), &array);
}

class ExportBatch : public ArrayTest {};

TEST_F(ExportBatch, EveryTypeRoundTrips) {
  const std::vector<Field> fields = test::every_type();
  for (const std::int64_t offset : {0, 3}) {
    ArrowDeviceArray made = test::on_host(test::make_struct(fields, 37, offset, offset == 0));
    const std::string expected = test::rows_text(fields, made.array, 0, 37);
    ArrowDeviceArray exported;
    export_batch(import_batch(std::make_shared<Schema>(fields), &made), &exported);
    EXPECT_EQ(made.array.release, nullptr);
    EXPECT_EQ(test::rows_text(fields, exported.array, 0, 37), expected);
    EXPECT_EQ(exported.device_type, ARROW_DEVICE_CPU);
    EXPECT_EQ(exported.device_id, -1);
    EXPECT_GT(test::live_arrays(), 0);
    test::release(&exported);
    EXPECT_EQ(exported.array.release, nullptr);
    EXPECT_EQ(test::live_arrays(), 0);
  }
}

TEST_F(ExportBatch, CustomMetadataComesBackWithTheBatchAndNotWithItsChildren) {
  std::vector<Field> fields = {field("s", TypeId::kStruct, {field("i", TypeId::kInt32)})};
  fields[0].nullable = false;  // its array becomes a batch
  RecordBatch batch = make_batch(fields, 3);
  batch.custom_metadata = {{"k", "v"}, {"k", ""}};
  ArrowDeviceArray exported;
  export_batch(batch, &exported);
  RecordBatch back = import_batch(batch.schema, &exported);
  EXPECT_EQ(back.custom_metadata, batch.custom_metadata);

  export_batch(std::move(back), &exported);
  ArrowDeviceArray child = test::on_host(*exported.array.children[0]);
  exported.array.children[0]->release = nullptr;
  test::release(&exported);
  const auto inner = std::make_shared<Schema>(std::vector{field("i", TypeId::kInt32)});
  EXPECT_EQ(import_batch(inner, &child).custom_metadata, Metadata());
}

TEST_F(ExportBatch, TakesOneAllocationForAnyNumberOfColumns) {
  for (const int columns : {0, 1, 8, 512}) {
    const std::vector<Field> fields(static_cast<std::size_t>(columns), field("c", TypeId::kUtf8));
    RecordBatch batch = make_batch(fields, 3);
    ArrowDeviceArray exported;
    const std::int64_t before = test::allocations();
    export_batch(std::move(batch), &exported);
    EXPECT_EQ(test::allocations() - before, 1) << columns;
    test::release(&exported);
  }
  RecordBatch nested = make_batch(test::every_type(), 9);
  ArrowDeviceArray exported;
  const std::int64_t before = test::allocations();
  export_batch(std::move(nested), &exported);
  EXPECT_EQ(test::allocations() - before, 1);
  test::release(&exported);
}

TEST_F(ExportBatch, AChildMovedOutKeepsTheMemoryAlone) {
  const std::vector<Field> fields = test::every_type();
  ArrowDeviceArray made = test::on_host(test::make_struct(fields, 20, 0, true));
  const std::int64_t all = test::live_arrays();
  for (std::size_t moved = 0; moved < fields.size(); ++moved) {
    ArrowDeviceArray exported;
    export_batch(make_batch(fields, 20), &exported);
    ArrowArray child = *exported.array.children[moved];
    exported.array.children[moved]->release = nullptr;
    test::release(&exported);
    EXPECT_EQ(test::live_arrays(), 2 * all) << "the child must keep the batch's owner";
    const std::string text = test::value_text(fields[moved], child, 11);
    EXPECT_EQ(text, test::value_text(fields[moved], *made.array.children[moved], 11));
    std::thread([&child] { child.release(&child); }).join();
    EXPECT_EQ(child.release, nullptr);
    EXPECT_EQ(test::live_arrays(), all) << fields[moved].name;
  }
  test::release(&made);
}

TEST_F(ExportBatch, ManyThreadsReleaseWhatWasMovedToThem) {
  const std::vector<Field> fields = test::every_type();
  ArrowDeviceArray exported;
  export_batch(make_batch(fields, 8), &exported);
  std::vector<ArrowArray> moved;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    moved.push_back(*exported.array.children[i]);
    exported.array.children[i]->release = nullptr;
  }
  std::vector<std::thread> threads;
  for (ArrowArray& array : moved) threads.emplace_back([&array] { array.release(&array); });
  threads.emplace_back([&exported] { test::release(&exported); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(test::live_arrays(), 0);
}

TEST_F(ExportBatch, GrandchildrenAndDictionariesMoveToo) {
  const std::vector<Field> fields = {
      field("s", TypeId::kStruct, {dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8))})};
  ArrowDeviceArray exported;
  export_batch(make_batch(fields, 8), &exported);
  ArrowArray* encoded = exported.array.children[0]->children[0];
  ArrowArray dictionary = *encoded->dictionary;
  encoded->dictionary->release = nullptr;
  ArrowArray indices = *encoded;
  encoded->release = nullptr;
  test::release(&exported);
  EXPECT_EQ(dictionary.length, 5);
  indices.release(&indices);
  EXPECT_GT(test::live_arrays(), 0);
  dictionary.release(&dictionary);
  EXPECT_EQ(test::live_arrays(), 0);
}

TEST_F(ExportBatch, AnArrayPutInAChildsPlaceIsReleasedByItsOwnCallback) {
  ArrowDeviceArray exported;
  export_batch(make_batch({field("a", TypeId::kInt32)}, 4), &exported);
  ArrowArray child = *exported.array.children[0];
  *exported.array.children[0] = test::make_values(field("a", TypeId::kInt32), 4, 0, true);
  test::release(&exported);
  EXPECT_GT(test::live_arrays(), 0) << "the moved child still holds the batch";
  child.release(&child);
}

TEST_F(ExportBatch, DictionariesAreSharedBetweenExports) {
  const std::vector<Field> fields = {dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8))};
  const RecordBatch batch = make_batch(fields, 9);
  ArrowDeviceArray first;
  ArrowDeviceArray second;
  export_batch(batch, &first);
  export_batch(batch, &second);
  EXPECT_EQ(first.array.children[0]->dictionary->buffers[2], second.array.children[0]->dictionary->buffers[2]);
  test::release(&first);
  EXPECT_EQ(test::value_text(fields[0], *second.array.children[0], 3),
            test::value_text(fields[0], *second.array.children[0], 3 + 5));
  test::release(&second);
}

TEST_F(ExportBatch, EmptyBuffersArePointersThatMayBeRead) {
  const std::vector<Field> fields = {field("u", TypeId::kUtf8),
                                     field("l", TypeId::kLargeList, {field("i", TypeId::kInt64)}),
                                     field("b", TypeId::kBool), field("n", TypeId::kNull)};
  RecordBatch batch;
  batch.schema = std::make_shared<Schema>(fields);
  batch.nodes.resize(batch.schema->nodes().size());
  batch.buffers.resize(static_cast<std::size_t>(batch.schema->n_buffers()));
  ArrowDeviceArray exported;
  export_batch(batch, &exported);
  EXPECT_EQ(exported.array.buffers[0], nullptr);
  const ArrowArray& text = *exported.array.children[0];
  EXPECT_EQ(text.buffers[0], nullptr);
  ASSERT_NE(text.buffers[1], nullptr);
  EXPECT_EQ(*static_cast<const std::int32_t*>(text.buffers[1]), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(text.buffers[1]) % 64, 0u);
  EXPECT_NE(text.buffers[2], nullptr);
  EXPECT_EQ(*static_cast<const std::int64_t*>(exported.array.children[1]->buffers[1]), 0);
  EXPECT_NE(exported.array.children[2]->buffers[1], nullptr);
  EXPECT_EQ(exported.array.children[3]->n_buffers, 0);
  test::release(&exported);
  // On a device, a host address would be wrong.
  batch.device = {.type = device::DeviceType::kCuda, .id = 2};
  export_batch(batch, &exported);
  EXPECT_EQ(exported.array.children[0]->buffers[1], nullptr);
  EXPECT_EQ(exported.device_type, ARROW_DEVICE_CUDA);
  EXPECT_EQ(exported.device_id, 2);
  test::release(&exported);
}

TEST_F(ExportBatch, AFailureOfItsWorkIsThrown) {
  RecordBatch batch = make_batch({field("a", TypeId::kInt32)}, 4);
  batch.device = {.type = device::DeviceType::kCuda, .id = 0};
  int native = 0;
  batch.event = device::Event(device::NativeEvent(&native), nullptr);
  batch.event.fail(std::make_shared<const SystemError>("the kernel trapped"));
  ArrowDeviceArray exported;
  EXPECT_EQ(message_of<SystemError>([&] { export_batch(batch, &exported); }), "the kernel trapped");
  EXPECT_EQ(exported.array.release, nullptr);
}

TEST_F(ExportBatch, ArrowHasNoEventForTheCpu) {
  RecordBatch batch = make_batch({field("a", TypeId::kInt32)}, 4);
  int native = 0;
  batch.event = device::Event(device::NativeEvent(&native), nullptr);
  batch.queue = device::Queue({.type = device::DeviceType::kCuda, .id = 1}, device::NativeQueue(), nullptr);
  ArrowDeviceArray exported;
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { export_batch(batch, &exported); }),
              HasSubstr("work of cuda:1 on the batch may be pending"));
  EXPECT_EQ(exported.array.release, nullptr);
  batch.event = {};
  batch.queue.reset();
  export_batch(batch, &exported);
  test::release(&exported);
}

TEST_F(ExportBatch, RefusesADictionaryOfAnotherDevice) {
  RecordBatch batch = make_batch({dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8))}, 4);
  batch.device = {.type = device::DeviceType::kCuda, .id = 0};
  ArrowDeviceArray exported;
  EXPECT_THAT(message_of<InvalidDataError>([&] { export_batch(batch, &exported); }),
              HasSubstr("it is on cpu, but its batch is on cuda:0"));
  EXPECT_EQ(exported.array.release, nullptr);
}

TEST_F(ExportBatch, ViewsOfADeviceNeedTheirSizesThere) {
  RecordBatch batch = make_batch({field("v", TypeId::kUtf8View)}, 6);
  ASSERT_GT(batch.variadic_counts[0], 0);
  batch.device = {.type = device::DeviceType::kCuda, .id = 0};
  ArrowDeviceArray exported;
  EXPECT_THAT(message_of<UnsupportedTypeError>([&] { export_batch(batch, &exported); }), HasSubstr("memory of cuda:0"));
  EXPECT_EQ(exported.array.release, nullptr);
  int sizes = 0;
  batch.variadic_sizes = {&sizes};
  export_batch(batch, &exported);
  const ArrowArray& view = *exported.array.children[0];
  EXPECT_EQ(view.buffers[view.n_buffers - 1], &sizes);
  test::release(&exported);
  batch.variadic_sizes = {&sizes, &sizes};
  EXPECT_THROW(export_batch(batch, &exported), InvalidDataError);
}

TEST_F(ExportBatch, ADictionaryThatIsNotThereGoesOutEmpty) {
  const std::vector<Field> fields = {dictionary_of(
      "d", TypeId::kInt8, field("", TypeId::kStruct, {dictionary_of("e", TypeId::kInt8, field("", TypeId::kUtf8))}))};
  RecordBatch batch = make_batch(fields, 0);
  batch.dictionaries[0] = nullptr;
  ArrowDeviceArray exported;
  export_batch(std::move(batch), &exported);
  const ArrowArray* dictionary = exported.array.children[0]->dictionary;
  ASSERT_NE(dictionary, nullptr);
  EXPECT_EQ(dictionary->length, 0);
  ASSERT_NE(dictionary->children[0]->dictionary, nullptr);
  EXPECT_NE(dictionary->children[0]->dictionary->buffers[1], nullptr);
  test::release(&exported);
}

TEST_F(ExportBatch, RefusesABatchThatIsNotOfItsSchema) {
  RecordBatch batch =
      make_batch({field("a", TypeId::kInt32), dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8))}, 4);
  ArrowDeviceArray exported = test::on_host(ArrowArray{});
  const auto refused = [&](const auto& change) {
    RecordBatch bad = batch;
    change(bad);
    exported.array.release = [](ArrowArray*) {};
    std::string message = message_of<InvalidDataError>([&] { export_batch(bad, &exported); });
    EXPECT_EQ(exported.array.release, nullptr);
    return message;
  };
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes.pop_back(); }), HasSubstr("1 nodes"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.buffers.pop_back(); }), HasSubstr("3 buffers"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.dictionaries.clear(); }), HasSubstr("0 dictionaries"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.schema = nullptr; }), HasSubstr("no schema"));
  EXPECT_THAT(refused([](RecordBatch& bad) {
                bad.dictionaries[0] = std::make_shared<RecordBatch>(make_batch({field("", TypeId::kInt8)}, 2));
              }),
              HasSubstr("not of the schema's type, utf8"));
}

}  // namespace
}  // namespace crossdock::array
