#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"

namespace crossdock::array {

class BatchIterator;

/// Batches of one schema, one after another. Not for use by two threads at the same time, but the thread may change.
///
/// A range that is read once: `for (RecordBatch& batch : stream)`; of a pointer too: `for (auto& batch :
/// client.get("weather"))`. begin() and ++ call next(), and throw what it throws.
class CROSSDOCK_EXPORT BatchStream {
 public:
  virtual ~BatchStream() = default;
  /// The schema of all batches, known before the first. Valid as long as the stream.
  virtual const std::shared_ptr<const Schema>& schema() const = 0;
  /// The device type of all batches.
  virtual device::DeviceType device_type() const { return device::DeviceType::kCpu; }
  /// Returns the next batch; nullopt at the end. Blocks as long as its source does. Throws crossdock::Error. After
  /// TimeoutError and InterruptedError, in streams that have them, the caller may call it again. Any other error is
  /// permanent: every later call throws it again, so that a broken stream never looks like a complete one.
  virtual std::optional<RecordBatch> next() = 0;

  /// Reads the next batch, and returns an iterator at it. A second loop goes on where the first one stopped. Throws as
  /// next().
  BatchIterator begin();
  /// The end of a loop, for any stream.
  static std::default_sentinel_t end() noexcept { return {}; }
};

/// The batches of a stream from the next one on. Holds one batch, which may be moved out of it. Move-only: after a
/// move, only the target may be used. The stream must outlive it.
class CROSSDOCK_EXPORT BatchIterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = RecordBatch;
  using difference_type = std::ptrdiff_t;

  /// Reads the next batch of `stream`. Throws as BatchStream::next().
  explicit BatchIterator(BatchStream& stream);
  BatchIterator(BatchIterator&&) noexcept;
  BatchIterator& operator=(BatchIterator&&) noexcept;
  ~BatchIterator();

  /// The batch, which the caller may move from. Undefined at the end.
  RecordBatch& operator*() const noexcept { return *batch_; }
  /// The same, for a member of it.
  RecordBatch* operator->() const noexcept { return &*batch_; }
  /// Drops the batch, then reads the next one. Throws as BatchStream::next(), and is at the end then.
  BatchIterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const BatchIterator& at, std::default_sentinel_t) noexcept { return !at.batch_; }

 private:
  BatchStream* stream_;
  mutable std::optional<RecordBatch> batch_;
};

/// The batches of a stream that a pointer owns. The pointer must not be null.
template <std::derived_from<BatchStream> Stream>
BatchIterator begin(const std::unique_ptr<Stream>& stream) {
  return BatchIterator(*stream);
}
/// The end of a loop over such a stream.
template <std::derived_from<BatchStream> Stream>
std::default_sentinel_t end(const std::unique_ptr<Stream>& /*stream*/) noexcept {
  return {};
}

/// Makes a stream of existing batches; gives each once. Throws InvalidArgumentError if `schema` is null, and
/// InvalidDataError if a batch has another schema, or another device type than the first batch.
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> make_stream(std::shared_ptr<const Schema> schema,
                                                          std::vector<RecordBatch> batches);

/// Takes ownership of `*stream`, which is marked released, and reads its schema at once. On a throw the caller still
/// owns it. Arrays that are not structs (a chunked array, a series) become batches of one column.
///
/// The producer's callbacks are later called on the thread that calls next() or drops the stream. For errors of the
/// producer, throws the class that fits the errno of its status, with the producer's text (InvalidDataError for EINVAL,
/// UnsupportedError for ENOSYS, ResourceError for ENOMEM, SystemError for EIO; the error keeps the errno). For a stream
/// that export_stream() made, throws the original error of its source. Throws InvalidDataError for an array that isn't
/// of the stream's device type.
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> import_stream(ArrowArrayStream* stream);
/// Does the same for the device form, whose arrays may be on one device of any type, with an event each.
CROSSDOCK_EXPORT std::unique_ptr<BatchStream> import_device_stream(ArrowDeviceArrayStream* stream);

/// Exports the stream in C form.
///
/// An error becomes its own errno, or the errno that fits its code: EINVAL for bad data and arguments, ENOSYS for
/// unsupported features, ENOMEM, EACCES, ENOENT, ETIMEDOUT, EINTR, ECANCELED for a closed object, ECONNRESET; else EIO.
/// get_last_error() gives the text, which begins with the error's name.
///
/// The CPU form is for batches on the CPU. It can't carry an event: a batch on another device, or with an event, is an
/// error of the stream (UnsupportedTypeError). The device form gives the stream's device type, and the event of each
/// array; a batch of another device type is InvalidDataError.
CROSSDOCK_EXPORT void export_stream(std::unique_ptr<BatchStream> stream, ArrowArrayStream* out);
/// Exports in the device form, see export_stream().
CROSSDOCK_EXPORT void export_device_stream(std::unique_ptr<BatchStream> stream, ArrowDeviceArrayStream* out);

}  // namespace crossdock::array
