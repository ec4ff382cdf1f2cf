#include "gil.h"

#include <unistd.h>

#include <string>

namespace crossdock::python {
namespace {

PyGILState_STATE ensure(const char* doing) {
  if (interpreter_ending()) throw ClosedError(std::string(doing) + ": the Python interpreter is ending");
  return PyGILState_Ensure();
}

}  // namespace

void enter(PyThreadState* state) noexcept {
  while (interpreter_ending()) pause();  // the state may be gone
  PyEval_RestoreThread(state);
}

GilAcquire::GilAcquire(const char* doing) : state_(ensure(doing)) {}

}  // namespace crossdock::python
