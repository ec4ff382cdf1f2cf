#include "external_memory.h"

#include <utility>

#include "../deferred.h"
#include "../errors.h"
#include "../gil.h"
#include "core/fork.h"

namespace nb = nanobind;

namespace crossdock::python {

/// The call of the deleter. It is made as a deferred task in advance, so that nothing can fail when the memory is
/// freed.
struct ExternalMemory::Call final : Deferred {
  Call(PyObject* function, PyObject* address) noexcept : function_(Py_NewRef(function)), address_(Py_NewRef(address)) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  /// Needs the GIL, which every thread that runs deferred tasks holds.
  ~Call() override {
    keep.reset();
    Py_DECREF(function_);
    Py_DECREF(address_);
  }

  void run() noexcept override {
    if (!armed || made_in.in_child()) return;  // a forked child has a copy of the bytes, which it must not free
    PyObject* const result = PyObject_CallFunctionObjArgs(function_, address_, nullptr);
    if (result == nullptr) PyErr_WriteUnraisable(function_);
    Py_XDECREF(result);
  }

  static void finish(Call* call) noexcept {
    std::unique_ptr<Call> owned(call);
    if (interpreter_ending() || !holds_gil()) {
      defer(std::move(owned));
      return;
    }
    const SavedError saved;
    owned->run();
    owned.reset();
  }

  ForkGuard made_in;
  bool armed = false;
  std::shared_ptr<const void> keep;

 private:
  PyObject* function_;
  PyObject* address_;
};

ExternalMemory::ExternalMemory(nb::handle deleter, nb::handle address) {
  if (PyCallable_Check(deleter.ptr()) == 0) {
    throw_type_error(deleter, "deleter must be a function that takes the address");
  }
  call_ = std::shared_ptr<Call>(new Call(deleter.ptr(), address.ptr()), Call::finish);
}

std::shared_ptr<const void> ExternalMemory::owner(std::shared_ptr<const void> keep) noexcept {
  call_->keep = std::move(keep);
  return call_;
}

void ExternalMemory::arm() noexcept { call_->armed = true; }

}  // namespace crossdock::python
