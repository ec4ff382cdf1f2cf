#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::ArrayTest;
using test::Bytes;
using test::bytes_of;
using test::dictionary_of;
using test::field;
using test::make_array;
using test::Parts;
using test::union_of;
using ::testing::HasSubstr;

class ImportBatch : public ArrayTest {
 protected:
  /// Imports a struct around one hand-made child; the array must stay the caller's.
  template <typename E>
  std::string refused(const Field& of, Parts parts, std::int64_t rows) {
    Parts root;
    root.length = rows;
    root.buffers.emplace_back();
    root.children.push_back(test::make_array(std::move(parts)));
    return refused_root<E>({of}, test::make_array(std::move(root)));
  }

  template <typename E>
  std::string refused_root(const std::vector<Field>& fields, ArrowArray root, std::int32_t device = ARROW_DEVICE_CPU) {
    ArrowDeviceArray array = test::on_host(root);
    array.device_type = device;
    std::string message = message_of<E>([&] { import_batch(std::make_shared<Schema>(fields), &array); });
    EXPECT_EQ(array.array.release, root.release) << "on a throw the array is untouched";
    test::release(&array);
    return message;
  }
};

TEST_F(ImportBatch, ReleasesOnceWhenTheLastOwnerGoes) {
  const std::vector<Field> fields = {field("a", TypeId::kInt32)};
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, 4, 0, true));
  RecordBatch batch = import_batch(std::make_shared<Schema>(fields), &array);
  EXPECT_EQ(array.array.release, nullptr);
  RecordBatch copy = batch;
  batch = RecordBatch{};
  EXPECT_EQ(test::live_arrays(), 2);
  EXPECT_EQ(copy.nbytes(), 1 + 16);
  copy = RecordBatch{};
  EXPECT_EQ(test::live_arrays(), 0);
}

TEST_F(ImportBatch, TheTopOffsetGoesDownToTheColumns) {
  const std::vector<Field> fields = test::every_type();
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, 40, 1, true));
  array.array.offset = 7;
  array.array.length = 20;
  const std::string expected = test::rows_text(fields, array.array, 0, 20);
  ArrowDeviceArray exported;
  RecordBatch batch = import_batch(std::make_shared<Schema>(fields), &array);
  EXPECT_EQ(batch.num_rows, 20);
  EXPECT_EQ(batch.nodes[1].offset, 8);
  EXPECT_EQ(batch.nodes[1].length, 20);
  EXPECT_EQ(batch.nodes[1].null_count, -1) << "a part's nulls are unknown";
  EXPECT_EQ(batch.nodes[0].null_count, 20) << "of the null type all are null";
  export_batch(std::move(batch), &exported);
  EXPECT_EQ(exported.array.offset, 0);
  EXPECT_EQ(test::rows_text(fields, exported.array, 0, 20), expected);
  test::release(&exported);
}

TEST_F(ImportBatch, TakesABareColumn) {
  for (const Field& of : test::every_type()) {
    ArrowDeviceArray array = test::on_host(test::make_values(of, 12, 2, false));
    const std::string expected = test::value_text(of, array.array, 3);
    RecordBatch batch = import_batch(std::make_shared<Schema>(std::vector<Field>{of}), &array);
    EXPECT_EQ(batch.num_rows, 12) << of.name;
    ArrowDeviceArray exported;
    export_batch(std::move(batch), &exported);
    EXPECT_EQ(test::value_text(of, *exported.array.children[0], 3), expected) << of.name;
    test::release(&exported);
  }
}

TEST_F(ImportBatch, AStructOfOneColumnIsNotABareColumn) {
  for (const Field& of : test::every_type()) {
    ArrowDeviceArray array = test::on_host(test::make_struct({of}, 12, 0, false));
    const RecordBatch batch = import_batch(std::make_shared<Schema>(std::vector<Field>{of}), &array);
    EXPECT_EQ(batch.num_rows, 12) << of.name;
  }
}

TEST_F(ImportBatch, NullsAtTheTopAreRefusedAndCountedIfUnknown) {
  const std::vector<Field> fields = {field("a", TypeId::kInt8)};
  const auto root = [&](std::int64_t null_count, std::byte bits) {
    Parts parts;
    parts.length = 3;
    parts.offset = 1;
    parts.null_count = null_count;
    parts.buffers.push_back(test::Bytes{bits});
    parts.children.push_back(test::make_values(fields[0], 4, 0, true));
    return test::make_array(std::move(parts));
  };
  EXPECT_THAT(refused_root<InvalidDataError>(fields, root(-1, std::byte{0b1010})), HasSubstr("1 row is null, which"));
  EXPECT_THAT(refused_root<InvalidDataError>(fields, root(2, std::byte{0b1111})), HasSubstr("2 rows are null"));
  EXPECT_THAT(refused_root<UnsupportedTypeError>(fields, root(-1, std::byte{0b1111}), ARROW_DEVICE_CUDA),
              HasSubstr("give a null count"));
  ArrowDeviceArray array = test::on_host(root(-1, std::byte{0b1110}));
  EXPECT_EQ(import_batch(std::make_shared<Schema>(fields), &array).num_rows, 3);
}

TEST_F(ImportBatch, RefusesShapesThatAreNotTheSchemas) {
  const Field a = field("a", TypeId::kInt32);
  EXPECT_THAT(refused_root<InvalidDataError>({a, a}, test::make_struct({a}, 2, 0, true)),
              HasSubstr("1 buffers and 1 children; a struct array of this schema has 1 and 2"));
  EXPECT_THAT(refused_root<InvalidDataError>({a}, test::make_struct({field("a", TypeId::kUtf8)}, 2, 0, true)),
              HasSubstr("field \"a\": its array has 3 buffers"));
  EXPECT_THAT(refused_root<InvalidDataError>({field("s", TypeId::kStruct, {a}), a},
                                             test::make_struct({field("s", TypeId::kStruct), a}, 2, 0, true)),
              HasSubstr("field \"s\""));
  EXPECT_THAT(refused_root<InvalidDataError>({dictionary_of("d", TypeId::kInt32, field("", TypeId::kUtf8))},
                                             test::make_struct({a}, 2, 0, true)),
              HasSubstr("no dictionary"));
  EXPECT_THAT(refused_root<InvalidDataError>(
                  {a}, test::make_struct({dictionary_of("d", TypeId::kInt32, field("", TypeId::kUtf8))}, 2, 0, true)),
              HasSubstr("its schema has none"));
  EXPECT_THAT(refused_root<InvalidDataError>(
                  {dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8))},
                  test::make_struct({dictionary_of("d", TypeId::kInt8, field("", TypeId::kInt8))}, 2, 0, true)),
              HasSubstr("field \"d.dictionary\""));
}

TEST_F(ImportBatch, RefusesLengthsThatMakeNoSense) {
  const Field a = field("a", TypeId::kInt32);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto parts = [](std::int64_t length, std::int64_t null_count, std::int64_t offset) {
    Parts out;
    out.length = length;
    out.null_count = null_count;
    out.offset = offset;
    out.buffers = {std::nullopt, bytes_of<std::int32_t>({1, 2})};
    return out;
  };
  EXPECT_THAT(refused<InvalidDataError>(a, parts(-1, 0, 0), 0), HasSubstr("field \"a\": length -1"));
  EXPECT_THAT(refused<InvalidDataError>(a, parts(2, 0, -1), 2), HasSubstr("offset -1"));
  EXPECT_THAT(refused<InvalidDataError>(a, parts(kMost, 0, 2), 2), HasSubstr("are invalid"));
  EXPECT_THAT(refused<InvalidDataError>(a, parts(kMost, 0, 0), kMost), HasSubstr("exceed the address space"));
  EXPECT_THAT(refused<InvalidDataError>(a, parts(2, -2, 0), 2), HasSubstr("null count -2"));
  EXPECT_THAT(refused<InvalidDataError>(a, parts(2, 3, 0), 2), HasSubstr("null count 3"));
  EXPECT_THAT(refused<InvalidDataError>(a, parts(2, 1, 0), 2), HasSubstr("no validity buffer"));
  EXPECT_THAT(refused<InvalidDataError>(a, parts(2, 0, 0), 3), HasSubstr("the batch shows 3 rows"));
  ArrowArray root = test::make_struct({a}, 2, 0, true);
  root.offset = 1;
  EXPECT_THAT(refused_root<InvalidDataError>({a}, root), HasSubstr("2 rows from row 1"));
  root = test::make_struct({a}, 2, 0, true);
  root.length = -2;
  EXPECT_THAT(refused_root<InvalidDataError>({a}, root), HasSubstr("top level: length -2"));
}

TEST_F(ImportBatch, RefusesNullPointers) {
  const Field a = field("a", TypeId::kInt32);
  Parts parts;
  parts.length = 2;
  parts.buffers = {std::nullopt, std::nullopt};
  EXPECT_THAT(refused<InvalidDataError>(a, std::move(parts), 2), HasSubstr("data buffer has 0 bytes"));
  parts = Parts{};
  parts.length = 2;
  parts.buffers = {std::nullopt, std::nullopt, test::text_bytes("ab")};
  EXPECT_THAT(refused<InvalidDataError>(field("u", TypeId::kUtf8), std::move(parts), 2),
              HasSubstr("offsets buffer has 0 bytes"));
  parts = Parts{};
  parts.length = 2;
  parts.buffers = {std::nullopt, bytes_of<std::int32_t>({0, 1, 2}), std::nullopt};
  EXPECT_THAT(refused<InvalidDataError>(field("u", TypeId::kUtf8), std::move(parts), 2), HasSubstr("length needs 2"));

  ArrowArray root = test::make_struct({a}, 2, 0, true);
  const void** buffers = std::exchange(root.buffers, nullptr);
  EXPECT_THAT(refused_root<InvalidDataError>({a}, root), HasSubstr("no pointer to its buffers"));
  static_cast<void>(buffers);
  root = test::make_struct({a}, 2, 0, true);
  root.children[0]->buffers = nullptr;
  EXPECT_THAT(refused_root<InvalidDataError>({a}, root), HasSubstr("field \"a\": its array has no pointer"));
  root = test::make_struct({a}, 2, 0, true);
  ArrowArray* child = std::exchange(root.children[0], nullptr);
  EXPECT_THAT(refused_root<InvalidDataError>({a}, root), HasSubstr("is null"));
  static_cast<void>(child);
  root = test::make_struct({a}, 2, 0, true);
  root.children = nullptr;
  EXPECT_THAT(refused_root<InvalidDataError>({a}, root), HasSubstr("is null"));
  root = test::make_struct({a}, 2, 0, true);
  ArrowArray moved = *root.children[0];
  root.children[0]->release = nullptr;
  EXPECT_THAT(refused_root<InvalidDataError>({a}, root), HasSubstr("released or moved out"));
  test::release(&moved);
}

TEST_F(ImportBatch, RefusesWhatWasReleased) {
  ArrowDeviceArray array{};
  const auto schema = std::make_shared<Schema>(std::vector<Field>{});
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { import_batch(schema, &array); }), HasSubstr("released already"));
  EXPECT_THROW(import_batch(nullptr, &array), InvalidArgumentError);
  EXPECT_THROW(import_batch(schema, nullptr), InvalidArgumentError);
}

TEST_F(ImportBatch, RefusesOffsetsOutOfOrder) {
  const auto parts = [](std::initializer_list<std::int32_t> offsets) {
    Parts out;
    out.length = static_cast<std::int64_t>(offsets.size()) - 1;
    out.buffers = {std::nullopt, bytes_of<std::int32_t>(offsets), test::text_bytes("abcd")};
    return out;
  };
  const Field u = field("u", TypeId::kUtf8);
  EXPECT_THAT(refused<InvalidDataError>(u, parts({-1, 2, 3}), 2),
              HasSubstr("field \"u\": its offsets run from -1 to 3"));
  EXPECT_THAT(refused<InvalidDataError>(u, parts({3, 2, 1}), 2), HasSubstr("from 3 to 1"));
  EXPECT_THAT(refused<InvalidDataError>(u, parts({0, 2, -7}), 2), HasSubstr("from 0 to -7"));
}

TEST_F(ImportBatch, RefusesChildrenTooShort) {
  const auto list = [](TypeId id, test::Bytes offsets) {
    Parts out;
    out.length = 2;
    out.buffers.emplace_back();
    if (!offsets.empty()) out.buffers.emplace_back(std::move(offsets));
    out.children.push_back(test::make_values(field("item", TypeId::kInt8), id == TypeId::kStruct ? 1 : 5, 0, true));
    return out;
  };
  const std::vector<Field> item = {field("item", TypeId::kInt8)};
  EXPECT_THAT(refused<InvalidDataError>(field("l", TypeId::kList, item),
                                        list(TypeId::kList, bytes_of<std::int32_t>({0, 3, 6})), 2),
              HasSubstr("field \"l.item\": length 5, but its parent needs 6"));
  EXPECT_THAT(refused<InvalidDataError>(field("l", TypeId::kLargeList, item),
                                        list(TypeId::kLargeList, bytes_of<std::int64_t>({0, 3, 6})), 2),
              HasSubstr("needs 6"));
  EXPECT_THAT(refused<InvalidDataError>(test::fixed_size_list("f", 3, item[0]), list(TypeId::kFixedSizeList, {}), 2),
              HasSubstr("needs 6"));
  EXPECT_THAT(refused<InvalidDataError>(field("s", TypeId::kStruct, item), list(TypeId::kStruct, {}), 2),
              HasSubstr("field \"s.item\": length 1, but its parent needs 2"));
}

TEST_F(ImportBatch, OtherDevicesAreNotRead) {
  // Addresses that nobody may touch.
  const auto pointer = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
  const std::vector<Field> fixed = {field("a", TypeId::kInt32),
                                    field("l", TypeId::kList, {field("item", TypeId::kInt8)})};
  ArrowDeviceArray array = test::on_host(test::make_struct(fixed, 4, 0, true));
  array.array.children[0]->buffers[1] = pointer(0x1000);
  array.array.children[1]->buffers[1] = pointer(0x2000);
  array.device_type = ARROW_DEVICE_CUDA;
  array.device_id = 1;
  int event = 0;
  array.sync_event = &event;
  RecordBatch batch = import_batch(std::make_shared<Schema>(fixed), &array);
  EXPECT_EQ(batch.buffers[1].data, pointer(0x1000));
  EXPECT_EQ(batch.buffers[1].size, 16);
  EXPECT_EQ(batch.buffers[3].size, 20);
  EXPECT_FALSE(batch.host_readable());
  ArrowDeviceArray exported;
  export_batch(std::move(batch), &exported);
  EXPECT_EQ(exported.sync_event, &event);
  EXPECT_EQ(exported.device_id, 1);
  test::release(&exported);

  const std::vector<Field> text = {field("u", TypeId::kUtf8)};
  for (const std::int32_t host : {ARROW_DEVICE_CUDA_HOST, ARROW_DEVICE_ROCM_HOST, ARROW_DEVICE_CUDA_MANAGED}) {
    ArrowDeviceArray readable = test::on_host(test::make_struct(text, 4, 0, true));
    readable.device_type = host;
    const RecordBatch read = import_batch(std::make_shared<Schema>(text), &readable);
    EXPECT_EQ(static_cast<std::int32_t>(read.device.type), host);
    EXPECT_TRUE(read.sizes_known());
    ArrowDeviceArray pending = test::on_host(test::make_struct(text, 4, 0, true));
    pending.device_type = host;
    pending.sync_event = &event;
    EXPECT_FALSE(import_batch(std::make_shared<Schema>(text), &pending).sizes_known()) << "nobody has waited yet";
  }
}

/// Every address in an array, dictionaries' too, becomes one that nobody may touch. They are noted, in preorder.
void move_away(ArrowArray* array, std::vector<const void*>* seen) {
  for (std::int64_t i = 0; i < array->n_buffers; ++i) {
    if (array->buffers[i] != nullptr) array->buffers[i] = reinterpret_cast<const void*>(0x1000 + seen->size() * 64);
    seen->push_back(array->buffers[i]);
  }
  for (std::int64_t i = 0; i < array->n_children; ++i) move_away(array->children[i], seen);
  if (array->dictionary != nullptr) move_away(array->dictionary, seen);
}

void note(const ArrowArray& array, std::vector<const void*>* seen) {
  seen->insert(seen->end(), array.buffers, array.buffers + array.n_buffers);
  for (std::int64_t i = 0; i < array.n_children; ++i) note(*array.children[i], seen);
  if (array.dictionary != nullptr) note(*array.dictionary, seen);
}

TEST_F(ImportBatch, EveryTypeOfADeviceIsCarriedThrough) {
  constexpr std::int32_t kUnknownType = 99;
  for (const Field& of : test::every_type()) {
    for (const std::int32_t type : {ARROW_DEVICE_CUDA, ARROW_DEVICE_EXT_DEV, kUnknownType}) {
      SCOPED_TRACE(type_name(of.type) + " on device type " + std::to_string(type));
      const std::vector<Field> fields = {of};
      ArrowDeviceArray array = test::on_host(test::make_struct(fields, 5, 0, true));
      std::vector<const void*> before;
      move_away(&array.array, &before);
      array.device_type = type;
      array.device_id = 3;
      int event = 0;
      array.sync_event = &event;
      array.reserved[1] = 7;
      RecordBatch batch = import_batch(std::make_shared<Schema>(fields), &array);
      EXPECT_EQ(array.array.release, nullptr);
      EXPECT_EQ(batch.device, (device::Device{.type = static_cast<device::DeviceType>(type), .id = 3}));
      EXPECT_EQ(batch.event.native(), &event);
      EXPECT_GE(batch.nbytes(), 0);

      ArrowDeviceArray exported;
      export_batch(std::move(batch), &exported);
      std::vector<const void*> after;
      note(exported.array, &after);
      EXPECT_EQ(after, before);
      EXPECT_EQ(exported.device_type, type);
      EXPECT_EQ(exported.device_id, 3);
      EXPECT_EQ(exported.sync_event, &event);
      EXPECT_EQ(exported.reserved[0] | exported.reserved[1] | exported.reserved[2], 0);
      test::release(&exported);
    }
  }
}

TEST_F(ImportBatch, TheEventLivesAsLongAsItsProducersArray) {
  const std::vector<Field> fields = {field("a", TypeId::kInt32)};
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, 4, 0, true));
  array.device_type = ARROW_DEVICE_CUDA;
  int native = 0;
  array.sync_event = &native;
  std::optional<RecordBatch> batch = import_batch(std::make_shared<Schema>(fields), &array);
  device::Event event = batch->event;
  batch.reset();
  EXPECT_GT(test::live_arrays(), 0) << "it may be destroyed with the array";
  event = {};
  EXPECT_EQ(test::live_arrays(), 0);
}

TEST_F(ImportBatch, ADevicesLengthsAreCheckedAllTheSame) {
  const std::vector<Field> text = {field("u", TypeId::kUtf8)};
  ArrowArray short_one = test::make_struct(text, 4, 0, true);
  short_one.children[0]->length = 3;
  EXPECT_THAT(refused_root<InvalidDataError>(text, short_one, ARROW_DEVICE_CUDA), HasSubstr("length 3"));
  ArrowArray without = test::make_struct(text, 4, 0, true);
  without.children[0]->buffers[1] = nullptr;
  EXPECT_THAT(refused_root<InvalidDataError>(text, without, ARROW_DEVICE_CUDA),
              HasSubstr("its offsets buffer has 0 bytes, but its length needs 20"));
  ArrowArray masked = test::make_struct(text, 4, 0, true);
  masked.buffers[0] = masked.children[0]->buffers[1];
  masked.null_count = -1;
  EXPECT_THAT(refused_root<UnsupportedTypeError>(text, masked, ARROW_DEVICE_CUDA), HasSubstr("give a null count"));
}

TEST_F(ImportBatch, AnEmptyArrayNeedsNoOffsets) {
  const std::vector<Field> fields = {field("u", TypeId::kUtf8)};
  Parts child;
  child.buffers = {std::nullopt, std::nullopt, std::nullopt};
  Parts root;
  root.buffers.emplace_back();
  root.children.push_back(test::make_array(std::move(child)));
  ArrowDeviceArray array = test::on_host(test::make_array(std::move(root)));
  EXPECT_EQ(import_batch(std::make_shared<Schema>(fields), &array).nbytes(), 0);
}

TEST_F(ImportBatch, ViewsHaveABufferOfSizes) {
  const Field of = field("v", TypeId::kUtf8View);
  const Bytes views(32);
  const auto with = [&](std::vector<std::optional<Bytes>> after) {
    Parts parts;
    parts.length = 2;
    parts.buffers = {std::nullopt, views};
    parts.buffers.insert(parts.buffers.end(), after.begin(), after.end());
    return parts;
  };
  const Bytes text = test::text_bytes("abc");
  ArrowDeviceArray good = test::on_host(test::make_struct({}, 2, 0, true));
  Parts root;
  root.length = 2;
  root.buffers.emplace_back();
  root.children.push_back(make_array(with({text, std::nullopt, bytes_of<std::int64_t>({2, 0})})));
  test::release(&good);
  good = test::on_host(make_array(std::move(root)));
  const RecordBatch batch = import_batch(std::make_shared<Schema>(std::vector<Field>{of}), &good);
  EXPECT_EQ(batch.variadic_counts, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(batch.buffers[2].size, 2);
  EXPECT_EQ(batch.buffers[3].size, 0);

  EXPECT_THAT(refused<InvalidDataError>(of, with({}), 2),
              HasSubstr("2 buffers and 0 children; utf8_view has at least 3"));
  EXPECT_THAT(refused<InvalidDataError>(of, with({text, std::nullopt}), 2),
              HasSubstr("field \"v\": the sizes of its 1 variadic buffers are missing"));
  EXPECT_THAT(refused<InvalidDataError>(of, with({text, bytes_of<std::int64_t>({-1})}), 2),
              HasSubstr("variadic buffer 0 has a size of -1"));
  EXPECT_THAT(refused<InvalidDataError>(of, with({std::nullopt, bytes_of<std::int64_t>({3})}), 2),
              HasSubstr("variadic buffer 0 has a null pointer and a size of 3"));
  ArrowArray absurd = test::make_struct({of}, 2, 0, true);
  const std::int64_t n_buffers = absurd.children[0]->n_buffers;
  for (const std::int64_t n : {std::numeric_limits<std::int64_t>::max(), std::int64_t{kMaxBuffers} + 4}) {
    absurd.children[0]->n_buffers = n;
    ArrowDeviceArray on_host = test::on_host(absurd);
    EXPECT_THAT(
        message_of<InvalidDataError>([&] { import_batch(std::make_shared<Schema>(std::vector<Field>{of}), &on_host); }),
        HasSubstr("more than 1048576; compact the column"));
  }
  absurd.children[0]->n_buffers = n_buffers;
  test::release(&absurd);
}

TEST_F(ImportBatch, UnionsAndRunsHaveNoNullsOfTheirOwn) {
  const std::vector<Field> fields = {
      union_of("u", TypeId::kSparseUnion, {0}, {field("a", TypeId::kInt8)}),
      test::run_end_encoded("r", TypeId::kInt16, field("values", TypeId::kInt8)),
  };
  ArrowDeviceArray array = test::on_host(test::make_struct(fields, 6, 0, true));
  array.array.children[0]->null_count = -1;
  array.array.children[1]->null_count = 2;
  const RecordBatch batch = import_batch(std::make_shared<Schema>(fields), &array);
  EXPECT_EQ(batch.nodes[0].null_count, 0);
  EXPECT_EQ(batch.nodes[2].null_count, 0);
}

TEST_F(ImportBatch, BuffersOfUnionsAreCounted) {
  Field of = union_of("u", TypeId::kDenseUnion, {0}, {field("a", TypeId::kNull)});
  const auto with = [&](std::vector<std::optional<Bytes>> buffers) {
    Parts parts;
    parts.length = 2;
    parts.buffers = std::move(buffers);
    Parts child;
    child.length = 2;
    child.null_count = 2;
    parts.children.push_back(make_array(std::move(child)));
    return parts;
  };
  const Bytes ids(2);
  const Bytes offsets = bytes_of<std::int32_t>({0, 1});
  EXPECT_THAT(refused<InvalidDataError>(of, with({ids}), 2), HasSubstr("dense_union[0] has 2 and 1"));
  EXPECT_THAT(refused<InvalidDataError>(of, with({std::nullopt, ids, offsets}), 2), HasSubstr("3 buffers"));
  EXPECT_THAT(refused<InvalidDataError>(of, with({std::nullopt, offsets}), 2),
              HasSubstr("its type ids buffer has 0 bytes, but its length needs 2"));
  EXPECT_THAT(refused<InvalidDataError>(of, with({ids, std::nullopt}), 2),
              HasSubstr("its offsets buffer has 0 bytes, but its length needs 8"));
}

}  // namespace
}  // namespace crossdock::array
