#include "crossdock/session/await.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::session {

/// A coroutine that waits for a batch.
struct NextBatch::Wait : std::enable_shared_from_this<Wait> {
  Wait(Reader& from, WhenReadable loop) : reader(from), when_readable(std::move(loop)) {}
  ~Wait() {
    if (end_watch) end_watch();
    try {
      stop_sleeping();
    } catch (const Error&) {
      // In the child of a fork: its copy of the connection wakes nobody.
    }
  }

  /// Returns whether something was found: a batch, the end or an error.
  bool poll() noexcept {
    found = reader.try_next();
    return found.state != Polled::State::kNotYet;
  }

  /// Has on_ready() called once there may be something. Returns false if there is something already.
  bool arm() {
    for (;;) {
      if (poll()) return false;
      if (reader.prepare_sleep()) break;
    }
    sleeps = true;
    try {
      // Weakly: the loop may have decided to call this before the coroutine was destroyed. And for this watch alone:
      // it may call twice.
      end_watch = when_readable(reader.descriptor(), [weak = weak_from_this(), mine = ++watch] {
        if (const auto wait = weak.lock(); wait && wait->watch == mine) wait->on_ready();
      });
    } catch (...) {
      stop_sleeping();  // now: a coroutine that gets the exception may destroy the reader before this object goes
      throw;
    }
    return true;
  }

  void stop_sleeping() {
    if (std::exchange(sleeps, false)) reader.awake();
  }

  void on_ready() {
    ++watch;
    end_watch = nullptr;
    try {
      stop_sleeping();
      if (arm()) return;  // a part of a message alone
    } catch (...) {
      found = {.state = Polled::State::kFailed, .error = std::current_exception()};
    }
    coroutine.resume();
  }

  Reader& reader;
  WhenReadable when_readable;
  std::function<void()> end_watch;  ///< While the loop watches.
  std::coroutine_handle<> coroutine;
  Polled found;
  bool sleeps = false;
  std::uint64_t watch = 0;  ///< Number of the watch that may call on_ready(); of none while the loop watches nothing.
};

NextBatch::NextBatch(Reader& reader, WhenReadable when_readable)
    : wait_(std::make_shared<Wait>(reader, std::move(when_readable))) {}
NextBatch::~NextBatch() = default;

bool NextBatch::await_ready() { return wait_->poll(); }

bool NextBatch::await_suspend(std::coroutine_handle<> coroutine) {
  wait_->coroutine = coroutine;
  return wait_->arm();
}

std::optional<array::RecordBatch> NextBatch::await_resume() {
  if (wait_->found.error) std::rethrow_exception(wait_->found.error);
  return std::move(wait_->found.batch);
}

}  // namespace crossdock::session
