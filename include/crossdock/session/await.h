#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"
#include "crossdock/core/function.h"
#include "crossdock/session/client.h"

/// Readers in coroutines: `while (auto batch = co_await session::next(*reader, loop))`.
namespace crossdock::session {

/// The event loop that a coroutine runs on, as a function: it has `ready` called once, on the loop's own thread, when
/// the descriptor is readable, and returns at once. It must not call `ready` itself. What it throws is thrown by
/// co_await.
///
/// It returns a function that ends the watch. That one is called if the coroutine is destroyed while it waits; the
/// descriptor may be closed right afterwards. It must not throw. A `ready` that is called later does nothing.
///
/// All of this happens on the loop's thread: a coroutine that waits must be destroyed there, and so never while `ready`
/// runs on another thread. A loop on several threads needs a strand. Such a loop is a few lines over poll(), epoll,
/// libuv or Asio (examples/cpp/event_loop.h).
using WhenReadable = std::function<std::function<void()>(int descriptor, std::function<void()> ready)>;

/// The result of next(), for co_await. Await it at once, and once.
class CROSSDOCK_EXPORT NextBatch {
 public:
  /// As next(), which makes one.
  NextBatch(Reader& reader, WhenReadable when_readable);
  ~NextBatch();
  NextBatch(const NextBatch&) = delete;
  NextBatch& operator=(const NextBatch&) = delete;

  /// Returns true if the next batch, the end or an error is there already, so that nothing is suspended.
  bool await_ready();
  /// Hands the descriptor to the loop. Returns false if something has arrived in the meantime.
  bool await_suspend(std::coroutine_handle<> coroutine);
  /// Returns the batch, or nullopt at the end. Throws as next().
  std::optional<array::RecordBatch> await_resume();

 private:
  struct Wait;
  std::shared_ptr<Wait> wait_;  ///< The loop holds it weakly: a coroutine may be destroyed while it waits.
};

/// Returns the next batch of a reader, or nullopt at its end, without blocking the thread: the coroutine is suspended
/// until the batch is there, and goes on on the thread of the loop that `when_readable` belongs to.
///
/// The reader must live until the coroutine goes on or is destroyed; nothing else may use it meanwhile. Throws as
/// Reader::next(), except TimeoutError and InterruptedError: GetOptions::timeout and the interrupt hook don't apply.
inline NextBatch next(Reader& reader, WhenReadable when_readable) { return {reader, std::move(when_readable)}; }

}  // namespace crossdock::session
