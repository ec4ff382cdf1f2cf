#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/log.h"

/// What the library's threads leave for Python threads to do. The server's I/O thread never takes the interpreter lock:
/// it pushes here, and Python threads drain, on every call into the package and, on the main thread, between two byte
/// codes.
namespace crossdock::python {

/// One thing to do with the interpreter lock held.
class Deferred {
 public:
  virtual ~Deferred() = default;
  virtual void run() noexcept = 0;

 private:
  friend void defer(std::unique_ptr<Deferred>) noexcept;
  friend void drain_deferred() noexcept;
  Deferred* next_ = nullptr;
  std::shared_ptr<const void> after_;  // what a simulated queue had done when it released this
};

/// From any thread, also without the lock. Never blocks. Once the interpreter ends, what is pushed is left alone for
/// good: nobody could run it.
void defer(std::unique_ptr<Deferred> task) noexcept;
/// Runs what is waiting, oldest first. Needs the lock.
void drain_deferred() noexcept;

/// True on threads that may wait for the interpreter lock: those that Python knows, as it does the server's threads
/// that run Python sources.
bool thread_may_take_gil() noexcept;

/// Drops the last owner of something whose destructor may want the interpreter lock: here and now if this thread may
/// take it, else later, on a Python thread.
void drop(std::shared_ptr<const void> owner) noexcept;

/// A shared owner that is dropped as drop() does, on whatever thread its last copy goes. Null stays null.
template <class T>
std::shared_ptr<T> held(std::shared_ptr<T> owner) {
  T* const pointer = owner.get();
  if (pointer == nullptr) return nullptr;
  return std::shared_ptr<T>(pointer, [owner = std::move(owner)](T*) mutable noexcept { drop(std::move(owner)); });
}

/// Owns a Python object in C++ code that may be copied and destroyed on any thread.
class PyOwner {
 public:
  /// Takes a reference of its own. Needs the lock.
  explicit PyOwner(PyObject* object) noexcept : object_(Py_NewRef(object)) {}
  PyOwner(const PyOwner&) = delete;
  PyOwner& operator=(const PyOwner&) = delete;
  ~PyOwner();
  PyObject* get() const noexcept { return object_; }

 private:
  PyObject* object_;
};

/// Sends what a Server or Client says to the Python logger "crossdock", through the queue. Needs the lock.
LogCallback log_to_python();

/// `_log_descriptor` and `_drain`, for the thread that has log lines reach their logger while no other runs Python.
void bind_deferred(nanobind::module_& module);

}  // namespace crossdock::python
