#include "interrupt.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace crossdock::python {
namespace {

// Python runs signal handlers only on its main thread, which is the main thread of the process.
bool on_main_thread() noexcept { return syscall(SYS_gettid) == getpid(); }

int raise_now(void* exception) {
  auto* const value = static_cast<PyObject*>(exception);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
  return -1;
}

}  // namespace

Interrupt::~Interrupt() {
  if (raised_ == nullptr || interpreter_ending()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_CLEAR(raised_);
  PyGILState_Release(state);
}

bool Interrupt::possible_here() noexcept { return on_main_thread(); }

bool Interrupt::check() noexcept {
  if (cancelled()) return true;
  if (!on_main_thread() || interpreter_ending()) return false;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool stop = PyErr_CheckSignals() != 0;
  if (stop) {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    Py_XDECREF(std::exchange(raised_, value));
  }
  PyGILState_Release(state);
  return stop || cancelled();  // a handler may have cancelled
}

bool Interrupt::raise_here() noexcept {
  if (raised_ == nullptr) return false;
  PyObject* const value = std::exchange(raised_, nullptr);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
  return true;
}

void Interrupt::raise_later() noexcept {
  if (raised_ == nullptr || interpreter_ending()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  python::raise_later(std::exchange(raised_, nullptr));
  PyGILState_Release(state);
}

void raise_later(PyObject* exception) noexcept {
  // Only the main thread runs pending calls. Their error is raised as it is.
  if (on_main_thread() && Py_AddPendingCall(&raise_now, exception) == 0) return;
  PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), reinterpret_cast<PyObject*>(Py_TYPE(exception)));
  Py_DECREF(exception);
}

}  // namespace crossdock::python
