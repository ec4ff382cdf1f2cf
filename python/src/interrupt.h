#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <utility>

#include "crossdock/core/error.h"
#include "deferred.h"
#include "gil.h"
#include "transport/transport.h"

/// Support for Ctrl-C in calls that wait.
namespace crossdock::python {

/// Tells a waiting call to stop: because a Python signal handler raised an exception, or because a thread called
/// cancel(). The call polls check(). Used by one waiting thread at a time; any thread may call cancel().
class Interrupt {
 public:
  Interrupt() = default;
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  /// Returns true on the thread that runs Python's signal handlers (the main thread).
  static bool possible_here() noexcept;

  /// Returns true if the call must stop. On the main thread it runs Python's signal handlers, and keeps the exception
  /// that one of them raises.
  bool check() noexcept;
  void cancel() noexcept { cancelled_.store(true); }
  bool cancelled() const noexcept { return cancelled_.load(); }

  /// Sets the exception that a handler raised as the Python error of this thread. Returns false if there is none. Needs
  /// the GIL.
  bool raise_here() noexcept;
  /// Raises the exception later, when the main thread runs Python code again. For C streams, which have no Python
  /// caller to raise to.
  void raise_later() noexcept;

 private:
  PyObject* raised_ = nullptr;  // The exception, normalised. Null if there is none.
  std::atomic<bool> cancelled_{false};
};

/// Raises `exception`, which it takes over, when this thread runs Python code again. On another thread than the main
/// thread, or if the interpreter's list of pending calls is full, only its class is kept. Needs the GIL.
void raise_later(PyObject* exception) noexcept;

/// Runs `call(hook)` with the GIL released. Ctrl-C stops the call, if it polls the hook, and so does
/// `interrupt.cancel()` on any thread. Needs the GIL. Runs deferred tasks before and after the call. Throws
/// nb::python_error with the exception of a signal handler.
template <class Call>
auto blocking(Interrupt& interrupt, Call&& call) {
  drain_deferred();
  struct Drain {
    ~Drain() { drain_deferred(); }
  } drain_afterwards;
  try {
    const GilRelease release;
    return call([&interrupt] { return interrupt.check(); });
  } catch (const InterruptedError&) {
    if (interrupt.raise_here()) throw nanobind::python_error();
    throw;
  }
}

template <class Call>
auto blocking(Call&& call) {
  Interrupt interrupt;
  return blocking(interrupt, std::forward<Call>(call));
}

}  // namespace crossdock::python
