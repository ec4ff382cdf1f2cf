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
  /// The next batch; nothing at the end. Blocks as long as its source does. Throws crossdock::Error. After TimeoutError
  /// and InterruptedError it may be called again, where a stream has them; any other error stays: every later call
  /// throws it again, so that what was cut short never looks like what has ended.
  virtual std::optional<RecordBatch> next() = 0;
};

/// Batches that are there, each given once. Throws InvalidArgumentError if `schema` is null, and InvalidDataError if a
/// batch is of another schema.
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> make_stream(std::shared_ptr<const Schema> schema,
                                                          std::vector<RecordBatch> batches);

/// Takes over `*stream`, which is marked released; reads its schema at once. The producer's callbacks are then called
/// on whatever thread calls next() or drops the stream. Errors of the producer throw InvalidDataError with its own
/// words. On a throw here the stream is still the caller's.
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> import_stream(ArrowArrayStream* stream);
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> import_device_stream(ArrowDeviceArrayStream* stream);

/// Gives the stream away in C form; errors become EIO (or a fitting errno: ETIMEDOUT, EINTR, ENOMEM, ENOTSUP, EINVAL)
/// with get_last_error(), whose text begins with the error's name. The CPU form is for host batches only.
CROSSDOCK_EXPORT void export_stream(std::unique_ptr<BatchStream> stream, ArrowArrayStream* out);
CROSSDOCK_EXPORT void export_device_stream(std::unique_ptr<BatchStream> stream, ArrowDeviceType device_type,
                                           ArrowDeviceArrayStream* out);

}  // namespace crossdock::array
