#include "source_thread.h"

#include <mutex>

#include "gil.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

// Held by whoever makes a thread state, which needs no interpreter lock; and by a thread that forks, meanwhile.
// Never destroyed: threads may outlive the module.
std::mutex& making() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

class SourceThread {
 public:
  SourceThread() = default;
  SourceThread(const SourceThread&) = delete;
  SourceThread& operator=(const SourceThread&) = delete;
  ~SourceThread() {
    // Once the interpreter ends, its states go with it.
    if (state_ == nullptr || interpreter_ending()) return;
    enter(state_);
    PyThreadState_Clear(state_);
    PyThreadState_DeleteCurrent();
  }
  void mark() noexcept {
    if (state_ != nullptr || PyGILState_GetThisThreadState() != nullptr) return;
    const std::lock_guard lock(making());
    state_ = PyThreadState_New(PyInterpreterState_Main());
  }
  bool marked() const noexcept { return state_ != nullptr; }

 private:
  PyThreadState* state_ = nullptr;
};

thread_local SourceThread this_thread;

}  // namespace

void mark_source_thread() noexcept { this_thread.mark(); }

bool is_source_thread() noexcept { return this_thread.marked(); }

void register_source_threads_at_fork(nb::module_& module) {
  module.def("_before_fork", [] { making().lock(); });
  module.def("_after_fork", [] { making().unlock(); });
  const nb::object after = module.attr("_after_fork");
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("before") = module.attr("_before_fork"),
                                                      nb::arg("after_in_parent") = after,
                                                      nb::arg("after_in_child") = after);
}

}  // namespace crossdock::python
