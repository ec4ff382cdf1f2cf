#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/transport/transport.h"
#include "deferred.h"
#include "gil.h"

/// Ctrl-C in calls that wait.
namespace crossdock::python {

/// What a waiting call asks now and then: has a signal handler raised, or did somebody cancel? Used by one waiting
/// thread at a time; cancel() comes from any.
class Interrupt {
 public:
  Interrupt() = default;
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  /// Whether the calling thread is the one that Python's signal handlers run on.
  static bool possible_here() noexcept;

  /// For the library: true means stop. Runs Python's signal handlers, on the main thread; what one of them raises is
  /// kept.
  bool check() noexcept;
  void cancel() noexcept { cancelled_.store(true); }
  bool cancelled() const noexcept { return cancelled_.load(); }

  /// What a handler raised becomes the Python error of this thread: true. Nothing was raised: false. Needs the lock.
  bool raise_here() noexcept;
  /// The same where no Python caller of ours is there to raise to (a C stream): it is raised as soon as the main thread
  /// runs Python again.
  void raise_later() noexcept;

 private:
  PyObject* raised_ = nullptr;  // An exception, normalised.
  std::atomic<bool> cancelled_{false};
};

/// Runs `call(hook)` with the interpreter lock released and Ctrl-C answered. Needs the lock; drains what other threads
/// left to do, before and after. Of an `interrupt` that is given, anybody may cancel() the call.
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
