#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"

namespace crossdock::array {

/// Batches of one schema, one after another. One thread at a time, but not always the same one.
class CROSSDOCK_EXPORT BatchStream {
 public:
  virtual ~BatchStream() = default;
  virtual const std::shared_ptr<const Schema>& schema() const = 0;
  /// Where its batches are: every one on a device of this type.
  virtual device::DeviceType device_type() const { return device::DeviceType::kCpu; }
  /// The next batch; nothing at the end. Blocks as long as its source does. Throws crossdock::Error. After TimeoutError
  /// and InterruptedError it may be called again, where a stream has them; any other error stays: every later call
  /// throws it again, so that what was cut short never looks like what has ended.
  virtual std::optional<RecordBatch> next() = 0;
};

/// Batches that are there, each given once. Throws InvalidArgumentError if `schema` is null, and InvalidDataError if a
/// batch is of another schema, or of another device type than the first.
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> make_stream(std::shared_ptr<const Schema> schema,
                                                          std::vector<RecordBatch> batches);

/// Takes over `*stream`, which is marked released; reads its schema at once. Arrays that are no structs (a chunked
/// array, a series) become batches of one column. The producer's callbacks are then called on whatever thread calls
/// next() or drops the stream. Errors of the producer throw the class that fits the errno of its status, with its own
/// words (InvalidDataError for EINVAL, UnsupportedError for ENOSYS, ResourceError for ENOMEM, SystemError for EIO; the
/// error keeps the errno); of a stream that export_stream() made, what its source threw. An array that isn't of the
/// stream's device type is InvalidDataError. On a throw here the stream is still the caller's.
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> import_stream(ArrowArrayStream* stream);
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> import_device_stream(ArrowDeviceArrayStream* stream);

/// Gives the stream away in C form; an error becomes its own errno, or the one that fits its code (EINVAL for bad data
/// and arguments, ENOSYS for what is unsupported, ENOMEM, EACCES, ENOENT, ETIMEDOUT, EINTR, ECANCELED for what was
/// closed, ECONNRESET; else EIO), with get_last_error(), whose text begins with the error's name. The CPU form is for
/// batches on the CPU: one of another device, or with an event, which it can't say, is an error of the stream
/// (UnsupportedTypeError). The device form says the stream's device type and gives each array its event; a batch of
/// another type is InvalidDataError.
CROSSDOCK_EXPORT void export_stream(std::unique_ptr<BatchStream> stream, ArrowArrayStream* out);
CROSSDOCK_EXPORT void export_device_stream(std::unique_ptr<BatchStream> stream, ArrowDeviceArrayStream* out);

}  // namespace crossdock::array
