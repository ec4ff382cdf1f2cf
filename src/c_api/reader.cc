#include "crossdock/c_api/reader.h"

#include <memory>
#include <optional>
#include <utility>

#include "c_api/arguments.h"
#include "c_api/boundary.h"
#include "c_api/client_handle.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/array/stream.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.
namespace array = crossdock::array;

namespace {

/// What is left of a reader, as a stream that shares it.
class RestOfReader final : public array::BatchStream {
 public:
  explicit RestOfReader(const crossdock_reader& handle) : reader_(handle.reader), pending_(handle.pending) {}
  const std::shared_ptr<const array::Schema>& schema() const override { return reader_->schema(); }
  crossdock::device::DeviceType device_type() const override { return reader_->device_type(); }
  std::optional<array::RecordBatch> next() override {
    return pending_ ? std::exchange(pending_, std::nullopt) : reader_->next();
  }

 private:
  std::shared_ptr<crossdock::session::Reader> reader_;
  std::optional<array::RecordBatch> pending_;
};

void check_on_host(const crossdock_reader& handle, const char* instead) {
  if (handle.reader->device_type() == crossdock::device::DeviceType::kCpu) return;
  throw crossdock::UnsupportedError("the batches are in memory of a device: call " + std::string(instead));
}

/// Hands the pending batch over. A failure leaves it pending: a batch that is lost would look like one that was never
/// there.
void hand_over(crossdock_reader* handle, ArrowDeviceArray* batch) {
  if (!handle->pending) return;  // the end of the stream
  array::export_batch(std::move(*handle->pending), batch);
  handle->pending.reset();
}

void next(crossdock_reader* handle, ArrowDeviceArray* batch) {
  if (!handle->pending) handle->pending = handle->reader->next();
  hand_over(handle, batch);
}

}  // namespace

void crossdock_reader_release(crossdock_reader** reader) { release(reader); }

crossdock_status crossdock_reader_schema(const crossdock_reader* reader, ArrowSchema* schema, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(schema, "schema").release = nullptr;
    array::export_schema(*need(reader, "reader").reader->schema(), schema);
  });
}

crossdock_status crossdock_reader_next(crossdock_reader* reader, ArrowArray* batch, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(batch, "batch").release = nullptr;
    check_on_host(need(reader, "reader"), "crossdock_reader_next_device()");
    ArrowDeviceArray on_host{};
    next(reader, &on_host);
    *batch = on_host.array;
  });
}

crossdock_status crossdock_reader_next_device(crossdock_reader* reader, ArrowDeviceArray* batch,
                                              crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(batch, "batch").array.release = nullptr;
    need(reader, "reader");
    next(reader, batch);
  });
}

crossdock_status crossdock_reader_try_next(crossdock_reader* reader, ArrowDeviceArray* batch, int32_t* arrived,
                                           crossdock_error** error) {
  return guarded(__func__, error, [&] {
    if (arrived != nullptr) *arrived = 0;  // also where `batch` is wrong
    need(batch, "batch").array.release = nullptr;
    need(arrived, "arrived");
    if (!need(reader, "reader").pending) {
      crossdock::session::Polled found = reader->reader->try_next();
      if (!found.arrived()) return;
      reader->pending = std::move(found.batch);
    }
    hand_over(reader, batch);
    *arrived = 1;
  });
}

crossdock_status crossdock_reader_prepare_sleep(crossdock_reader* reader, int32_t* sleep, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(sleep, "sleep") = 0;
    *sleep = need(reader, "reader").reader->prepare_sleep() ? 1 : 0;
  });
}

crossdock_status crossdock_reader_awake(crossdock_reader* reader, crossdock_error** error) {
  return guarded(__func__, error, [&] { need(reader, "reader").reader->awake(); });
}

int32_t crossdock_reader_descriptor(const crossdock_reader* reader) {
  return reader != nullptr ? reader->reader->descriptor() : -1;
}

crossdock_status crossdock_reader_to_stream(crossdock_reader** reader, ArrowArrayStream* stream,
                                            crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(stream, "stream").release = nullptr;
    crossdock_reader& handle = need(need(reader, "reader"), "*reader");
    check_on_host(handle, "crossdock_reader_to_device_stream()");
    array::export_stream(std::make_unique<RestOfReader>(handle), stream);
    release(reader);
  });
}

crossdock_status crossdock_reader_to_device_stream(crossdock_reader** reader, ArrowDeviceArrayStream* stream,
                                                   crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(stream, "stream").release = nullptr;
    crossdock_reader& handle = need(need(reader, "reader"), "*reader");
    array::export_device_stream(std::make_unique<RestOfReader>(handle), stream);
    release(reader);
  });
}

int64_t crossdock_reader_version(const crossdock_reader* reader) {
  return reader != nullptr ? reader->reader->version() : -1;
}

crossdock_status crossdock_reader_close(crossdock_reader* reader, crossdock_error** error) {
  return guarded(__func__, error, [&] { need(reader, "reader").reader->close(); });
}
