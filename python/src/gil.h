#pragma once

#include <Python.h>

#include "crossdock/core/error.h"

/// Who holds the interpreter lock, and what happens to that once the interpreter ends.
namespace crossdock::python {

/// The interpreter is being torn down, or is gone: no thread but the one that ends it may enter it again.
inline bool interpreter_ending() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

/// True for the thread that holds the interpreter lock. PyGILState_Check() says so of every thread as soon as there is
/// a sub-interpreter, or was one.
inline bool holds_lock() noexcept {
  PyThreadState* const mine = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return mine != nullptr && mine == PyThreadState_GetUnchecked();
#else
  return mine != nullptr && mine == _PyThreadState_UncheckedGet();
#endif
}

/// Takes the interpreter lock with a state of the calling thread's. Where the interpreter ends, the thread is blocked
/// forever for good.
void enter(PyThreadState* state) noexcept;

/// Lets other Python threads run while this one waits. The constructor needs the lock. While the interpreter ends it
/// does nothing: then nobody else runs. A thread that comes back after that is blocked forever: CPython before 3.14
/// would end it through C++ frames that don't expect it.
class GilRelease {
 public:
  GilRelease() noexcept : state_(interpreter_ending() ? nullptr : PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease();

 private:
  PyThreadState* state_;
};

/// GilRelease for code that a C caller may call with the lock held or without.
class GilReleaseIfHeld {
 public:
  GilReleaseIfHeld() noexcept : state_(!interpreter_ending() && holds_lock() ? PyEval_SaveThread() : nullptr) {}
  GilReleaseIfHeld(const GilReleaseIfHeld&) = delete;
  GilReleaseIfHeld& operator=(const GilReleaseIfHeld&) = delete;
  ~GilReleaseIfHeld();

 private:
  PyThreadState* state_;
};

/// Puts an error that is being raised aside while a destructor runs what may be Python: that would see it as its own.
/// Needs the lock.
class SavedError {
 public:
  SavedError() noexcept { PyErr_Fetch(&type_, &value_, &traceback_); }
  SavedError(const SavedError&) = delete;
  SavedError& operator=(const SavedError&) = delete;
  ~SavedError() {
    if (type_ != nullptr) [[unlikely]]
      PyErr_Restore(type_, value_, traceback_);
  }

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

/// Takes the lock on any thread, a thread of the library's too. Throws ClosedError once the interpreter ends.
class GilAcquire {
 public:
  explicit GilAcquire(const char* doing);
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;
  ~GilAcquire() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace crossdock::python
