#pragma once

#include <Python.h>

#include "crossdock/core/error.h"
#include "python_api.h"

/// Acquires, releases and queries the GIL, also while the interpreter is ending.
namespace crossdock::python {

/// Returns true if the interpreter is being finalized or is gone. Then only the thread that finalizes it may enter it.
inline bool interpreter_ending() noexcept { return Py_IsInitialized() == 0 || is_finalizing(); }

/// Returns true if this thread holds the GIL. PyGILState_Check() isn't used: it returns true for every thread once a
/// sub-interpreter has existed.
inline bool holds_gil() noexcept {
  PyThreadState* const mine = PyGILState_GetThisThreadState();
  return mine != nullptr && mine == current_thread_state();
}

/// Takes the GIL with a thread state of the calling thread. Blocks the thread forever if the interpreter is ending.
void enter(PyThreadState* state) noexcept;

/// Releases the GIL for its lifetime, so that other Python threads run while this one waits. The constructor needs the
/// GIL. Does nothing if the interpreter is ending, as no other thread runs then. If the interpreter has begun to end
/// when the destructor takes the GIL again, the thread is blocked forever (forced_unwind.cc).
class GilRelease {
 public:
  GilRelease() noexcept : GilRelease(!interpreter_ending()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() {
    if (state_ != nullptr) enter(state_);
  }

 protected:
  explicit GilRelease(bool release) noexcept : state_(release ? PyEval_SaveThread() : nullptr) {}

 private:
  PyThreadState* state_;
};

/// The same as GilRelease, for code that a C caller may call with or without the GIL.
class GilReleaseIfHeld : public GilRelease {
 public:
  GilReleaseIfHeld() noexcept : GilRelease(!interpreter_ending() && holds_gil()) {}
};

/// Calls `call()` without the GIL, which it releases if it is held.
template <class Call>
auto without_gil(Call&& call) {
  const GilReleaseIfHeld release;
  return call();
}

/// Saves the Python error of this thread for its lifetime, while a destructor may run Python code, which would take the
/// error for its own. Needs the GIL.
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

/// Takes the GIL for its lifetime. Works on any thread, also on threads of the library. Throws ClosedError if the
/// interpreter is ending; `doing` begins the text.
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
