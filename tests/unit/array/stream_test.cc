#include "crossdock/array/stream.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "support/batches.h"

namespace crossdock::array {
namespace {

using testing::FunctionStream;
using ::testing::HasSubstr;
using testing::number_at;
using testing::number_batch;
using ::testing::StartsWith;

/// What the last owner of a batch lets go of is counted.
RecordBatch watched_batch(std::int64_t first, std::weak_ptr<const void>* owner) {
  RecordBatch batch = number_batch(first, 10);
  *owner = batch.owner;
  return batch;
}

TEST(MadeStream, GivesEachBatchOnceAndHoldsNoneThatItGave) {
  std::weak_ptr<const void> first;
  std::vector<RecordBatch> batches;
  batches.push_back(watched_batch(0, &first));
  batches.push_back(number_batch(10, 10));
  const auto schema = batches.front().schema;
  const auto stream = make_stream(schema, std::move(batches));
  EXPECT_EQ(stream->schema(), schema);
  EXPECT_EQ(number_at(*stream->next(), 0), 0);
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(number_at(*stream->next(), 0), 10);
  EXPECT_FALSE(stream->next());
  EXPECT_FALSE(stream->next());
}

TEST(MadeStream, RefusesBatchesOfAnotherSchemaAndNone) {
  const auto schema = number_batch(0, 1).schema;
  RecordBatch other = number_batch(0, 1);
  other.schema = testing::make_schema({{"x", TypeId::kInt64}, {"text", TypeId::kUtf8}});
  EXPECT_THROW(make_stream(schema, {number_batch(0, 1), other}), InvalidDataError);
  EXPECT_THROW(make_stream(nullptr, {}), InvalidArgumentError);
  EXPECT_FALSE(make_stream(schema, {})->next());
}

std::string message_of(BatchStream& stream) {
  try {
    stream.next();
    return "no error";
  } catch (const InvalidDataError& error) {
    return error.what();
  }
}

TEST(ImportedStream, AFailureStays) {
  int asked = 0;
  ArrowArrayStream exported;
  export_stream(std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                 [&asked]() -> std::optional<RecordBatch> {
                                                   if (++asked == 2) throw FileChangedError("it changed");
                                                   return number_batch(0, 10);
                                                 }),
                &exported);
  const auto stream = import_stream(&exported);
  EXPECT_EQ(exported.release, nullptr);
  EXPECT_TRUE(stream->next());
  const std::string message = message_of(*stream);
  EXPECT_THAT(message, StartsWith("the producer of an Arrow stream failed to give a batch: "));
  EXPECT_THAT(message, HasSubstr("it changed"));
  EXPECT_EQ(message_of(*stream), message);
  EXPECT_EQ(asked, 2) << "its producer isn't asked again";
}

/// What a chunked array or a series exports: the first column of the batches, in a stream of its own.
template <class Stream, class Array>
Stream columns_only(std::vector<RecordBatch> batches, void (*export_as)(std::unique_ptr<BatchStream>, Stream*)) {
  struct Inner {
    Stream tables;
  };
  auto* const inner = new Inner;
  auto schema = batches.front().schema;
  export_as(make_stream(std::move(schema), std::move(batches)), &inner->tables);
  Stream out{};
  if constexpr (std::is_same_v<Stream, ArrowDeviceArrayStream>) out.device_type = inner->tables.device_type;
  out.private_data = inner;
  out.get_schema = [](Stream* self, ArrowSchema* schema) {
    ArrowSchema table{};
    Stream* const from = &static_cast<Inner*>(self->private_data)->tables;
    if (const int status = from->get_schema(from, &table)) return status;
    *schema = *table.children[0];
    table.children[0]->release = nullptr;
    table.release(&table);
    return 0;
  };
  out.get_next = [](Stream* self, Array* array) {
    Stream* const from = &static_cast<Inner*>(self->private_data)->tables;
    if (const int status = from->get_next(from, array)) return status;
    ArrowArray* whole = nullptr;
    if constexpr (std::is_same_v<Array, ArrowDeviceArray>) {
      whole = &array->array;
    } else {
      whole = array;
    }
    if (whole->release == nullptr) return 0;
    ArrowArray table = *whole;
    *whole = *table.children[0];
    table.children[0]->release = nullptr;
    table.release(&table);
    return 0;
  };
  out.get_last_error = [](Stream* self) {
    Stream* const from = &static_cast<Inner*>(self->private_data)->tables;
    return from->get_last_error(from);
  };
  out.release = [](Stream* self) {
    auto* const mine = static_cast<Inner*>(self->private_data);
    mine->tables.release(&mine->tables);
    delete mine;
    self->release = nullptr;
  };
  return out;
}

TEST(ImportedStream, ArraysThatAreNoStructsAreTablesOfOneColumn) {
  std::weak_ptr<const void> owner;
  std::vector<RecordBatch> batches;
  batches.push_back(watched_batch(5, &owner));
  auto exported = columns_only<ArrowArrayStream, ArrowArray>(std::move(batches), &export_stream);
  const auto stream = import_stream(&exported);
  ASSERT_EQ(stream->schema()->fields().size(), 1U);
  EXPECT_EQ(stream->schema()->fields()[0].type.id, TypeId::kInt64);
  auto batch = stream->next();
  EXPECT_EQ(batch->num_rows, 10);
  EXPECT_EQ(number_at(*batch, 0), 5);
  EXPECT_FALSE(stream->next());
  EXPECT_FALSE(owner.expired());
  batch.reset();
  EXPECT_TRUE(owner.expired());
}

/// A batch of a device whose memory nobody may touch, with an event.
RecordBatch device_batch(device::DeviceType type, void* native) {
  RecordBatch batch = number_batch(0, 10);
  batch.device = {.type = type, .id = 1};
  batch.event = device::Event(native, nullptr);
  for (BufferView& buffer : batch.buffers) {
    if (buffer.data != nullptr) buffer.data = reinterpret_cast<const void*>(0x1000);
  }
  return batch;
}

TEST(DeviceStream, SaysItsDeviceAndGivesEachArrayItsEvent) {
  int first = 0;
  int second = 0;
  ArrowDeviceArrayStream exported;
  export_device_stream(make_stream(number_batch(0, 0).schema, {device_batch(device::DeviceType::kCuda, &first),
                                                               device_batch(device::DeviceType::kCuda, &second)}),
                       &exported);
  EXPECT_EQ(exported.device_type, ARROW_DEVICE_CUDA);
  const auto stream = import_device_stream(&exported);
  EXPECT_EQ(stream->device_type(), device::DeviceType::kCuda);
  EXPECT_EQ(stream->next()->event.native(), &first);
  const auto batch = stream->next();
  EXPECT_EQ(batch->event.native(), &second);
  EXPECT_EQ(batch->device.id, 1);
  EXPECT_FALSE(batch->sizes_known());
  EXPECT_FALSE(stream->next());
}

TEST(DeviceStream, ColumnsKeepTheirEventsToo) {
  int native = 0;
  auto exported = columns_only<ArrowDeviceArrayStream, ArrowDeviceArray>(
      {device_batch(device::DeviceType::kCuda, &native)}, &export_device_stream);
  const auto stream = import_device_stream(&exported);
  EXPECT_EQ(stream->schema()->fields().size(), 1U);
  const auto batch = stream->next();
  EXPECT_EQ(batch->event.native(), &native);
  EXPECT_EQ(batch->device, (device::Device{device::DeviceType::kCuda, 1}));
  // One whose array is of another device than it says is refused, column or not.
  exported = columns_only<ArrowDeviceArrayStream, ArrowDeviceArray>({device_batch(device::DeviceType::kCuda, &native)},
                                                                    &export_device_stream);
  exported.device_type = ARROW_DEVICE_ROCM;
  EXPECT_THAT(message_of(*import_device_stream(&exported)), HasSubstr("in a stream of device type 10"));
}

TEST(DeviceStream, HoldsOneDeviceType) {
  int native = 0;
  const auto schema = number_batch(0, 0).schema;
  EXPECT_THROW(make_stream(schema, {device_batch(device::DeviceType::kCuda, &native), number_batch(0, 1)}),
               InvalidDataError);
  // One whose batches turn out to be elsewhere.
  ArrowDeviceArrayStream exported;
  export_device_stream(
      std::make_unique<FunctionStream>(
          schema, [&]() -> std::optional<RecordBatch> { return device_batch(device::DeviceType::kCuda, &native); }),
      &exported);
  EXPECT_EQ(exported.device_type, ARROW_DEVICE_CPU);
  const auto stream = import_device_stream(&exported);
  EXPECT_THAT(message_of(*stream), HasSubstr("a batch is on cuda:1 in a stream of device type 1"));
  // A producer's array of another type than its stream.
  export_device_stream(make_stream(schema, {device_batch(device::DeviceType::kCuda, &native)}), &exported);
  exported.device_type = ARROW_DEVICE_ROCM;
  EXPECT_THAT(message_of(*import_device_stream(&exported)),
              HasSubstr("gave an array on cuda:1 in a stream of device type 10"));
}

TEST(ExportedStream, TheCpusFormRefusesADevicesBatch) {
  int native = 0;
  const auto refusal = [&](RecordBatch batch) {
    ArrowArrayStream exported;
    export_stream(make_stream(number_batch(0, 0).schema, {std::move(batch)}), &exported);
    ArrowArray array{};
    EXPECT_EQ(exported.get_next(&exported, &array), ENOTSUP);
    EXPECT_EQ(array.release, nullptr);
    std::string text = exported.get_last_error(&exported);
    exported.release(&exported);
    return text;
  };
  EXPECT_THAT(refusal(device_batch(device::DeviceType::kCuda, nullptr)), HasSubstr("copy it to the host first"));
  RecordBatch pending = number_batch(0, 1);
  pending.event = device::Event(&native, nullptr);
  EXPECT_THAT(refusal(pending), HasSubstr("with an event to wait for"));
}

TEST(ExportedStream, ErrorsHaveAnErrnoAndTheirName) {
  const auto status_of = [](auto error) {
    ArrowArrayStream exported;
    export_stream(std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                   [&]() -> std::optional<RecordBatch> { throw error; }),
                  &exported);
    ArrowArray array{};
    const int status = exported.get_next(&exported, &array);
    EXPECT_EQ(array.release, nullptr);
    EXPECT_THAT(exported.get_last_error(&exported), StartsWith(error_name(error.code())));
    exported.release(&exported);
    return status;
  };
  EXPECT_EQ(status_of(TimeoutError("x")), ETIMEDOUT);
  EXPECT_EQ(status_of(InterruptedError("x")), EINTR);
  EXPECT_EQ(status_of(ResourceError("x")), ENOMEM);
  EXPECT_EQ(status_of(UnsupportedTypeError("x")), ENOTSUP);
  EXPECT_EQ(status_of(InvalidDataError("x")), EINVAL);
  EXPECT_EQ(status_of(TruncatedStreamError("x")), EIO);
}

}  // namespace
}  // namespace crossdock::array
