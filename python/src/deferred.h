#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "crossdock/core/log.h"

/// Tasks that the library's threads defer to Python threads. The server's I/O thread never takes the GIL: it pushes
/// tasks to a list. Python threads run them: every call into the package does so, and the main thread also does so
/// between two byte codes. While it waits, a thread of the package does, where a server or peers have started it.
///
/// Log lines are run by that thread alone: a handler may take a lock that the thread which calls the package, or is
/// between two byte codes, has already.
namespace crossdock::python {

/// A task to run with the GIL held.
class Deferred {
 public:
  virtual ~Deferred() = default;
  virtual void run() noexcept = 0;

 private:
  friend class TaskList;
  Deferred* next_ = nullptr;
  std::shared_ptr<const void> after_;  // see device/release_order.h
};

/// Defers a task to a Python thread. Callable from any thread, also without the GIL. Never blocks. Leaks the task if
/// the interpreter is ending, as no thread could run it.
void defer(std::unique_ptr<Deferred> task) noexcept;
/// Defers the call `call()`, which must not throw. If there is no memory for the task, destroys `call` without a call.
template <class Call>
void defer_call(Call call) noexcept {
  class Task final : public Deferred {
   public:
    explicit Task(Call&& call) noexcept : call_(std::move(call)) {}
    void run() noexcept override { call_(); }

   private:
    Call call_;
  };
  auto* const task = new (std::nothrow) Task(std::move(call));
  if (task != nullptr) defer(std::unique_ptr<Deferred>(task));
}
/// Runs the deferred tasks, oldest first. Needs the GIL. Keeps the Python error of this thread.
void drain_deferred() noexcept;

/// Returns true on threads that may wait for the GIL: those with a Python thread state, which includes the server's
/// threads that run Python sources.
bool thread_may_take_gil() noexcept;

/// Drops an owner whose destructor may need the GIL: at once if this thread may take the GIL, else later, on a Python
/// thread.
void drop(std::shared_ptr<const void> owner) noexcept;

/// Wraps an owner, so that it is dropped by drop() when the last copy of the result is destroyed, on any thread.
/// Returns null for null.
template <class T>
std::shared_ptr<T> defer_drop(std::shared_ptr<T> owner) {
  T* const pointer = owner.get();
  if (pointer == nullptr) return nullptr;
  return std::shared_ptr<T>(pointer, [owner = std::move(owner)](T*) mutable noexcept { drop(std::move(owner)); });
}

/// Owns a Python object in C++ code that may be copied and destroyed on any thread.
class PyOwner {
 public:
  /// Takes a new reference. Needs the GIL.
  explicit PyOwner(PyObject* object) noexcept : object_(Py_NewRef(object)) {}
  PyOwner(const PyOwner&) = delete;
  PyOwner& operator=(const PyOwner&) = delete;
  ~PyOwner();
  PyObject* get() const noexcept { return object_; }

 private:
  PyObject* object_;
};

/// Returns a callback that sends the log lines of the library's threads to the Python logger "crossdock", and starts
/// the package's thread, which runs them. Needs the GIL. Throws nanobind::python_error if a thread can't be started.
LogCallback log_to_python();
/// Sends a line to that logger at once, on the calling thread, which must be one that may run Python code. Takes the
/// GIL. Does nothing if the interpreter is ending.
void log_here(LogLevel level, std::string_view text);

/// Binds `_deferred_descriptor` and `_drain`, for the thread that runs deferred tasks while no other thread runs Python
/// code.
void bind_deferred(nanobind::module_& module);

}  // namespace crossdock::python
