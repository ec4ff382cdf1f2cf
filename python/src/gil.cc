#include "gil.h"

#include <cxxabi.h>
#include <unistd.h>

#include <string>

namespace crossdock::python {
namespace {

[[noreturn]] void block_forever() noexcept {
  for (;;) pause();
}

PyGILState_STATE ensure(const char* doing) {
  if (interpreter_ending()) throw ClosedError(std::string(doing) + ": the Python interpreter is ending");
  return PyGILState_Ensure();
}

}  // namespace

void enter(PyThreadState* state) noexcept {
  if (interpreter_ending()) block_forever();
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    // The interpreter began to end while this thread waited for the GIL, and CPython ends the thread by pthread_exit().
    // Unwinding through noexcept frames would terminate the process. This handler never returns, which stops it.
    block_forever();
  }
}

GilAcquire::GilAcquire(const char* doing) : state_(ensure(doing)) {}

}  // namespace crossdock::python
