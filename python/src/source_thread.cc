#include "source_thread.h"

#include <condition_variable>
#include <mutex>
#include <set>

#include "gil.h"
#include "python_api.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

/// Prevents forks while a thread state is being made. A fork waits for states that are being made. It doesn't wait for
/// other forks: their threads may be in hooks of other modules that wait for this one. A thread that makes its state
/// first waits for all forks.
class ForkGate {
 public:
  void begin_fork() noexcept {
    std::unique_lock lock(mutex_);
    ++forks_;
    changed_.wait(lock, [this] { return making_ == 0; });
  }
  void end_fork() noexcept {
    const std::lock_guard lock(mutex_);
    --forks_;
    changed_.notify_all();
  }
  void begin_making() noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return forks_ == 0; });
    ++making_;
  }
  void end_making() noexcept {
    const std::lock_guard lock(mutex_);
    --making_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned forks_ = 0;
  unsigned making_ = 0;
};

// Never destroyed, because threads may outlive the module. A forked child makes a new gate, because the parent's
// threads may have left this one in any state.
ForkGate* gate = new ForkGate;  // NOLINT(cert-err58-cpp)

/// The main interpreter, which alone imports the module. Set by register_source_threads_at_fork().
PyInterpreterState* interpreter = nullptr;

/// The numbers of these threads, as Python has them.
class ThreadNumbers {
 public:
  void add() noexcept {
    const std::lock_guard lock(mutex_);
    try {
      numbers_.insert(PyThread_get_thread_ident());
    } catch (const std::bad_alloc&) {  // it can't be interrupted
    }
  }
  void remove() noexcept {
    const std::lock_guard lock(mutex_);
    numbers_.erase(PyThread_get_thread_ident());
  }
  void interrupt() noexcept {
    const std::lock_guard lock(mutex_);
    for (const unsigned long one : numbers_) PyThreadState_SetAsyncExc(one, PyExc_KeyboardInterrupt);
  }

 private:
  std::mutex mutex_;
  std::set<unsigned long> numbers_;
};

// As the gate above.
ThreadNumbers* running = new ThreadNumbers;  // NOLINT(cert-err58-cpp)

class SourceThread {
 public:
  SourceThread() = default;
  SourceThread(const SourceThread&) = delete;
  SourceThread& operator=(const SourceThread&) = delete;
  ~SourceThread() {
    if (marked_) running->remove();
    // If the interpreter is ending, it destroys its thread states by itself.
    if (state_ == nullptr || interpreter_ending()) return;
    enter(state_);
    PyThreadState_Clear(state_);
    delete_current_thread_state();
  }
  void mark() noexcept {
    if (!marked_) running->add();
    marked_ = true;
    if (state_ != nullptr || PyGILState_GetThisThreadState() != nullptr) return;
    gate->begin_making();
    state_ = PyThreadState_New(interpreter);
    gate->end_making();
  }
  bool marked() const noexcept { return marked_; }

 private:
  bool marked_ = false;
  PyThreadState* state_ = nullptr;
};

thread_local SourceThread this_thread;

}  // namespace

void mark_source_thread() noexcept { this_thread.mark(); }

bool is_source_thread() noexcept { return this_thread.marked(); }

void interrupt_source_threads() noexcept { running->interrupt(); }

void register_source_threads_at_fork(nb::module_& module) {
  interpreter = PyInterpreterState_Get();
  module.def("_before_fork", [] {
    // Another thread that forks may be in a hook that needs the GIL.
    const GilRelease release;
    gate->begin_fork();
  });
  module.def("_after_fork_in_parent", [] { gate->end_fork(); });
  module.def("_after_fork_in_child", [] {
    gate = new ForkGate;
    running = new ThreadNumbers;
  });
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("before") = module.attr("_before_fork"),
                                                      nb::arg("after_in_parent") = module.attr("_after_fork_in_parent"),
                                                      nb::arg("after_in_child") = module.attr("_after_fork_in_child"));
}

}  // namespace crossdock::python
