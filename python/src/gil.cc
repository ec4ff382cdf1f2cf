#include "gil.h"

#include <unistd.h>

#include <string>

namespace crossdock::python {
namespace {

void restore(PyThreadState* state) noexcept {
  if (state == nullptr) return;
  while (interpreter_ending()) pause();
  PyEval_RestoreThread(state);
}

PyGILState_STATE ensure(const char* doing) {
  if (interpreter_ending()) throw ClosedError(std::string(doing) + ": the Python interpreter is ending");
  return PyGILState_Ensure();
}

}  // namespace

GilRelease::~GilRelease() { restore(state_); }

GilReleaseIfHeld::~GilReleaseIfHeld() { restore(state_); }

GilAcquire::GilAcquire(const char* doing) : state_(ensure(doing)) {}

}  // namespace crossdock::python
