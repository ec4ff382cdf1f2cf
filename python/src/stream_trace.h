#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "crossdock/array/record_batch.h"
#include "deferred.h"

namespace crossdock::python {

/// Counts the batches of one stream, and calls a Python callable once it is over: `on_end(batches, bytes, time,
/// error)`. `time` is in ns since 1970, and `error` a str, or None. The stream is over at its end, after an error, or
/// when this is destroyed. All functions may be called on any thread, without the GIL: the call is deferred to a Python
/// thread.
class StreamTrace {
 public:
  /// Needs the GIL.
  explicit StreamTrace(PyObject* on_end) : on_end_(std::make_shared<PyOwner>(on_end)) {}
  ~StreamTrace() { end(); }
  StreamTrace(const StreamTrace&) = delete;
  StreamTrace& operator=(const StreamTrace&) = delete;

  void note(const array::RecordBatch& batch) noexcept;
  void end(const std::string& error = {}) noexcept;

 private:
  const std::shared_ptr<PyOwner> on_end_;
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> over_{false};
};

}  // namespace crossdock::python
