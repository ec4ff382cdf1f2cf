#include "crossdock/array/stream.h"

#include <cerrno>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

/// Counts what the last owner of a batch releases.
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

static_assert(std::input_iterator<BatchIterator> && std::sentinel_for<std::default_sentinel_t, BatchIterator>);
static_assert(!std::copyable<BatchIterator>, "a batch is given once");

TEST(BatchIterators, AreForRangeLoops) {
  const auto two = [](std::weak_ptr<const void>* first) {
    std::vector<RecordBatch> batches;
    batches.push_back(watched_batch(0, first));
    batches.push_back(number_batch(10, 10));
    const auto schema = batches.front().schema;
    return make_stream(schema, std::move(batches));
  };
  std::weak_ptr<const void> first;
  std::int64_t next = 0;
  const auto stream = two(&first);
  for (RecordBatch& batch : *stream) {
    EXPECT_EQ(number_at(batch, 0), next);
    next += 10;
    if (next == 20) {
      EXPECT_TRUE(first.expired()) << "a batch is released before the next one is read";
    }
  }
  EXPECT_EQ(next, 20);
  for (const RecordBatch& batch : *stream) ADD_FAILURE() << "the stream is over, and gave " << batch.num_rows;
  std::vector<RecordBatch> kept;
  for (auto& batch : two(&first)) kept.push_back(std::move(batch));  // the loop keeps the stream
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(number_at(kept[1], 0), 10);
  EXPECT_FALSE(first.expired());
}

TEST(BatchIterators, PassOnErrors) {
  int calls = 0;
  FunctionStream stream(number_batch(0, 0).schema, [&]() -> std::optional<RecordBatch> {
    if (++calls == 2) throw InvalidDataError("the second");
    return number_batch(0, 1);
  });
  const auto read = [&] {
    for (const RecordBatch& batch : stream) EXPECT_EQ(batch.num_rows, 1);
  };
  EXPECT_THROW(read(), InvalidDataError);
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

/// A stream of another producer, whose callbacks give a status and a text.
class ForeignStream {
 public:
  ForeignStream(int status, const char* text) : status_(status), text_(text) {
    stream_.private_data = this;
    stream_.get_schema = [](ArrowArrayStream*, ArrowSchema* out) {
      export_schema(*number_batch(0, 0).schema, out);
      return 0;
    };
    stream_.get_next = [](ArrowArrayStream* self, ArrowArray*) {
      ++of(self)->asked_;
      return of(self)->status_;
    };
    stream_.get_last_error = [](ArrowArrayStream* self) { return of(self)->text_; };
    stream_.release = [](ArrowArrayStream* self) { self->release = nullptr; };
  }
  std::unique_ptr<BatchStream> import() { return import_stream(&stream_); }
  int asked() const { return asked_; }

 private:
  static ForeignStream* of(ArrowArrayStream* self) { return static_cast<ForeignStream*>(self->private_data); }
  ArrowArrayStream stream_{};
  int status_;
  const char* text_;
  int asked_ = 0;
};

TEST(ImportedStream, AFailureStays) {
  ForeignStream producer(EINVAL, "it changed");
  const auto stream = producer.import();
  const std::string message = message_of(*stream);
  EXPECT_EQ(message, "the producer of an Arrow stream failed to give a batch: it changed");
  EXPECT_EQ(message_of(*stream), message);
  EXPECT_EQ(producer.asked(), 1) << "it isn't asked again";
}

TEST(ImportedStream, AProducersStatusKeepsItsClassAndItsNumber) {
  const auto expect = [&](int status, ErrorCode code, int kept) {
    ForeignStream producer(status, nullptr);
    const auto stream = producer.import();
    try {
      stream->next();
      ADD_FAILURE() << "no error for " << status;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << status;
      EXPECT_EQ(error.system_errno(), kept) << status;
      EXPECT_THAT(error.what(), HasSubstr(std::strerror(status)));
    }
  };
  for (const int status : {EINVAL, EDOM, ERANGE}) expect(status, ErrorCode::kInvalidData, status);
  expect(-1, ErrorCode::kInvalidData, 0);
  for (const int status : {ENOSYS, ENOTSUP}) expect(status, ErrorCode::kUnsupported, status);
  for (const int status : {ENOMEM, EMFILE, ENFILE, ENOSPC}) expect(status, ErrorCode::kResource, status);
  for (const int status : {EACCES, EPERM}) expect(status, ErrorCode::kPermission, status);
  expect(ENOENT, ErrorCode::kNotFound, ENOENT);
  expect(ETIMEDOUT, ErrorCode::kTimeout, ETIMEDOUT);
  expect(EINTR, ErrorCode::kInterrupted, EINTR);
  expect(ECANCELED, ErrorCode::kClosed, ECANCELED);
  for (const int status : {EPIPE, ECONNRESET, ECONNREFUSED, ENOTCONN}) expect(status, ErrorCode::kConnection, status);
  for (const int status : {EIO, EBADF, EAGAIN, ESTALE}) expect(status, ErrorCode::kSystem, status);
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
  out.get_schema = [](Stream* self, ArrowSchema* column) {
    ArrowSchema table{};
    Stream* const from = &static_cast<Inner*>(self->private_data)->tables;
    if (const int status = from->get_schema(from, &table)) return status;
    *column = *table.children[0];
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
  batch.event = device::Event(device::NativeEvent(native), nullptr);
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
  EXPECT_TRUE(batch->sizes_known()) << "sizes that were known go along";
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
    EXPECT_EQ(exported.get_next(&exported, &array), ENOSYS);
    EXPECT_EQ(array.release, nullptr);
    std::string text = exported.get_last_error(&exported);
    exported.release(&exported);
    return text;
  };
  EXPECT_THAT(refusal(device_batch(device::DeviceType::kCuda, nullptr)), HasSubstr("copy it to the host first"));
  RecordBatch pending = number_batch(0, 1);
  pending.event = device::Event(device::NativeEvent(&native), nullptr);
  EXPECT_THAT(refusal(pending), HasSubstr("with work that may be pending"));
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
  EXPECT_EQ(status_of(ResourceError("x", EMFILE)), EMFILE);
  EXPECT_EQ(status_of(UnsupportedTypeError("x")), ENOSYS);
  EXPECT_EQ(status_of(UnsupportedError("x")), ENOSYS);
  EXPECT_EQ(status_of(InvalidDataError("x")), EINVAL);
  EXPECT_EQ(status_of(InvalidArgumentError("x")), EINVAL);
  EXPECT_EQ(status_of(NotFoundError("x")), ENOENT);
  EXPECT_EQ(status_of(PermissionError("x")), EACCES);
  EXPECT_EQ(status_of(ClosedError("x")), ECANCELED);
  EXPECT_EQ(status_of(ConnectionError("x")), ECONNRESET);
  EXPECT_EQ(status_of(SystemError("x")), EIO);
  EXPECT_EQ(status_of(SystemError("x", ENODEV)), ENODEV);
  EXPECT_EQ(status_of(TruncatedStreamError("x")), EIO);
}

}  // namespace
}  // namespace crossdock::array
