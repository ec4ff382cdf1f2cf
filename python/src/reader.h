#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "crossdock/core/fork.h"
#include "crossdock/session/client.h"
#include "interrupt.h"

namespace crossdock::python {

/// crossdock.RecordBatchReader: a session::Reader, or another library's stream, for Python threads, of which any may
/// close it while another waits in next(), and so may a signal handler that runs in there. After a fork it belongs to
/// the parent.
class PyReader {
 public:
  explicit PyReader(std::unique_ptr<session::Reader> reader);
  /// Of a stream that nobody can interrupt, and that says nothing before it has a batch.
  explicit PyReader(std::unique_ptr<array::BatchStream> stream);
  PyReader(const PyReader&) = delete;
  PyReader& operator=(const PyReader&) = delete;
  ~PyReader();

  const std::shared_ptr<const array::Schema>& schema() const noexcept { return schema_; }
  /// Needs the interpreter lock, and waits without. Nothing at the end. Throws as session::Reader::next(),
  /// ConsumedError after hand_over(), ClosedError after close(), StreamBusyError while another thread is in it,
  /// ForkError in a forked child.
  std::optional<array::RecordBatch> next();
  /// For event loops, see session::Reader. Like next(), one thread at a time.
  bool try_next(std::optional<array::RecordBatch>* batch);
  /// A descriptor to wait for; -1: don't.
  int prepare_sleep();
  void awake();
  /// Gives the stream away to a C consumer, which may call it on any thread. The stream is always the whole: throws
  /// ConsumedError once next() or try_next() has given a batch or the end, and as next().
  std::unique_ptr<array::BatchStream> hand_over();
  /// Ends a next() that waits in another thread, or that a signal handler interrupts: that raises ClosedError. A stream
  /// that was handed over is its consumer's: untouched. In a forked child it does nothing.
  void close();
  const char* state() const noexcept;

 private:
  enum class State : std::uint8_t { kOpen, kEnded, kHandedOver, kClosed };
  class Use;
  void require_open() const;
  void close_in_use();
  /// A batch was given out, or the end was seen.
  void note_taken(bool batch) noexcept;

  ForkGuard made_in_;
  std::shared_ptr<const array::Schema> schema_;
  std::shared_ptr<Interrupt> interrupt_;
  std::mutex in_use_;  // Held by whoever uses `stream_`; only ever waited for without the interpreter lock.
  std::atomic<std::thread::id> user_;  // Who holds it.
  std::unique_ptr<array::BatchStream> stream_;
  session::Reader* reader_ = nullptr;  // `stream_`, if it is one.
  std::atomic<State> state_{State::kOpen};
  std::atomic<bool> begun_{false};  // next() or try_next() has given a batch
};

void bind_reader(nanobind::module_& module);

}  // namespace crossdock::python
