#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/fork.h"
#include "crossdock/session/client.h"
#include "interrupt.h"
#include "stream_trace.h"

namespace crossdock::python {

/// Returns the batches of a stream in host memory, each as on_host() does when it is read.
std::unique_ptr<array::BatchStream> on_host(std::unique_ptr<array::BatchStream> stream);

/// crossdock.RecordBatchReader: a session::Reader, or another library's stream. Any Python thread may close it while
/// another thread waits in next(), and so may a signal handler that runs inside next(). After a fork it is only usable
/// in the parent.
class PyReader {
 public:
  explicit PyReader(std::unique_ptr<session::Reader> reader);
  /// Wraps a stream that can't be interrupted and that has no method to poll for a batch.
  explicit PyReader(std::unique_ptr<array::BatchStream> stream);
  PyReader(const PyReader&) = delete;
  PyReader& operator=(const PyReader&) = delete;
  ~PyReader();

  const std::shared_ptr<const array::Schema>& schema() const noexcept { return schema_; }
  device::DeviceType device_type() const noexcept { return device_type_; }
  /// As session::Reader; empty for another library's stream.
  const std::string& location() const noexcept { return location_; }
  std::int64_t version() const noexcept { return version_; }
  const std::vector<session::LocationTried>& passed_over() const noexcept { return passed_over_; }
  /// As session::Reader, for the batches that were taken so far, here or by a C consumer; 0 for another library's
  /// stream.
  std::uint64_t bytes_copied() const noexcept { return bytes_copied_->load(std::memory_order_relaxed); }
  /// Returns the next batch, or nullopt at the end. Needs the GIL, and releases it while it waits. Throws the errors of
  /// session::Reader::next(), ConsumedError after hand_over(), ClosedError after close(), StreamBusyError while another
  /// thread uses the reader, ForkError in a forked child.
  std::optional<array::RecordBatch> next();
  /// The three functions for event loops, see session::Reader. One thread at a time, as for next().
  bool try_next(std::optional<array::RecordBatch>* batch);
  /// Returns a descriptor to wait for, or -1 if there is no need to wait.
  int prepare_sleep();
  void awake();
  /// Transfers the whole stream to a C consumer, which may call it on any thread. Throws ConsumedError if next() or
  /// try_next() has already returned a batch or the end; otherwise throws as next().
  std::unique_ptr<array::BatchStream> hand_over();
  /// Closes the stream. A next() that waits in another thread, or that the calling signal handler interrupted, throws
  /// ClosedError. Does nothing in a forked child, or if the stream was handed over: its consumer owns it then.
  void close();
  const char* state() const noexcept;
  /// Tells `trace` of each batch from now on, and of the end. Call it before the first batch is read.
  void set_trace(std::shared_ptr<StreamTrace> trace) noexcept { trace_ = std::move(trace); }

 private:
  enum class State : std::uint8_t { kOpen, kEnded, kHandedOver, kClosed };
  class Use;
  void require_open() const;
  void close_in_use();
  /// Records that a batch was returned, or that the stream is at its end.
  void note_taken(const std::optional<array::RecordBatch>& batch) noexcept;

  ForkGuard made_in_;
  const std::shared_ptr<const array::Schema> schema_;
  const device::DeviceType device_type_;
  std::int64_t version_ = -1;
  std::string location_;
  std::vector<session::LocationTried> passed_over_;
  std::shared_ptr<Interrupt> interrupt_;
  std::mutex in_use_;                  // Held while a thread uses `stream_`. Never waited for with the GIL held.
  std::atomic<std::thread::id> user_;  // The thread that holds it.
  std::unique_ptr<array::BatchStream> stream_;
  session::Reader* reader_ = nullptr;  // The same object as `stream_`, if that is a session::Reader.
  std::atomic<State> state_{State::kOpen};
  /// Shared with the stream that was handed over.
  const std::shared_ptr<std::atomic<std::uint64_t>> bytes_copied_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::shared_ptr<StreamTrace> trace_;  // null: none; shared with the stream that was handed over
  std::atomic<bool> begun_{false};      // next() or try_next() has returned a batch
};

void bind_reader(nanobind::module_& module);

}  // namespace crossdock::python
