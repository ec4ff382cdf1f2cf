#include "deferred.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <string_view>

#include "crossdock/core/error.h"
#include "device/release_order.h"
#include "gil.h"
#include "interrupt.h"
#include "text.h"

namespace crossdock::python {

/// A lock-free stack: any thread pushes by compare-and-swap. A mutex could stay locked in the child of a fork.
class TaskList {
 public:
  void push(std::unique_ptr<Deferred> task) noexcept {
    Deferred* const raw = task.release();
    raw->after_ = device::release_order();
    raw->next_ = newest_.load(std::memory_order_relaxed);
    while (!newest_.compare_exchange_weak(raw->next_, raw, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  /// Runs the tasks, oldest first. Needs the GIL. Keeps the Python error of this thread.
  void run() noexcept {
    if (newest_.load(std::memory_order_relaxed) == nullptr) return;
    Deferred* taken = newest_.exchange(nullptr, std::memory_order_acquire);
    Deferred* oldest = nullptr;
    while (taken != nullptr) {
      Deferred* const next = taken->next_;
      taken->next_ = oldest;
      oldest = taken;
      taken = next;
    }
    const SavedError saved;  // a pending call may run between a caller's error and its handling
    while (oldest != nullptr) {
      const std::unique_ptr<Deferred> task(oldest);
      oldest = oldest->next_;
      const device::ReleaseScope after(std::move(task->after_));
      task->run();
    }
  }

 private:
  std::atomic<Deferred*> newest_{nullptr};
};

namespace {

TaskList tasks;
TaskList lines;  // of the log
std::atomic<bool> call_scheduled{false};

int drain_from_main_thread(void* /*unused*/) {
  call_scheduled.store(false);
  drain_deferred();
  return 0;
}

PyObject* logger = nullptr;  // Set with the GIL held, and never dropped.
// The logger's level when it was last queried. Lines below it aren't queued.
std::atomic<long> log_threshold{30};
constexpr int kMaxWaitingRecords = 10000;
std::atomic<int> waiting_records{0};

// The eventfd that the package's thread waits on, the process that made it, and the process of the thread: a forked
// child has no copy of it. Changed with the GIL held.
std::atomic<int> thread_event{-1};
pid_t event_pid = 0;
pid_t thread_pid = 0;
// Whether the thread was told of tasks since it last ran some: each of its turns costs one system call, however many
// objects are dropped.
std::atomic<bool> thread_told{false};
// What is added to the counter of the eventfd.
constexpr std::uint64_t kTasks = 1;
constexpr std::uint64_t kLines = std::uint64_t{1} << 32;  // the thread doesn't wait for the main thread
constexpr std::uint64_t kEnd = std::uint64_t{1} << 62;
// As an object of Python's, of the process thread_pid. Set with the GIL held, and never dropped.
PyObject* deferred_thread = nullptr;
// A handler of the application's may block the thread for ever.
constexpr double kEndSeconds = 5;

void wake_thread(std::uint64_t why) noexcept {
  const int descriptor = thread_event.load(std::memory_order_acquire);
  if (descriptor < 0) return;
  // Ignores an error: nothing can be done about it here. The counter is never full: it takes 2^31 lines.
  [[maybe_unused]] const auto written = ::write(descriptor, &why, sizeof why);
}

/// Returns the eventfd for the package's thread, which the caller starts; -1 if this process has that thread already.
int deferred_descriptor() {
  if (thread_pid == ::getpid()) return -1;
  if (event_pid != ::getpid()) {
    const int descriptor = ::eventfd(0, EFD_CLOEXEC);
    if (descriptor < 0) throw_errno(errno, "making the descriptor that the thread for deferred tasks waits on");
    event_pid = ::getpid();
    const int of_parent = thread_event.exchange(descriptor, std::memory_order_release);
    if (of_parent >= 0) ::close(of_parent);
  }
  thread_pid = ::getpid();
  wake_thread(kLines);  // tasks may already be queued
  return thread_event.load(std::memory_order_relaxed);
}

/// The thread couldn't be started: whoever needs it next tries again.
void forget_deferred_thread() { thread_pid = 0; }

void set_deferred_thread(nanobind::object thread) { deferred_thread = thread.release().ptr(); }

void end_deferred_thread() {
  if (deferred_thread == nullptr || thread_pid != ::getpid()) return;  // a forked child has none, or its own
  wake_thread(kEnd);
  const auto joined = nanobind::handle(deferred_thread).attr("join")(kEndSeconds);
}

void drain_from_thread() noexcept {
  thread_told.store(false);
  lines.run();
  tasks.run();
}

/// Handles the error of a Python call that we made. If it is an interrupt that arrived during the call by chance (the
/// KeyboardInterrupt of Ctrl-C), clears it, schedules it again for this thread's own Python code, so that it isn't
/// lost, and returns true. Else returns false.
bool reschedule_interrupt() noexcept {
  if (PyErr_ExceptionMatches(PyExc_Exception) != 0) return false;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  raise_later(value);
  return true;
}

void refresh_log_threshold() noexcept {
  PyObject* const level = PyObject_CallMethod(logger, "getEffectiveLevel", nullptr);
  const long value = level != nullptr ? PyLong_AsLong(level) : -1;
  Py_XDECREF(level);
  if (PyErr_Occurred() != nullptr) {
    if (!reschedule_interrupt()) PyErr_Clear();
    return;
  }
  log_threshold.store(value, std::memory_order_relaxed);
}

/// Calls `logger.log(level, text)`. Needs the GIL.
void log_line(LogLevel level, std::string_view text) noexcept {
  PyObject* result = nullptr;
  try {
    result = PyObject_CallMethod(logger, "log", "isO", static_cast<int>(level), "%s", displayed(text).ptr());
  } catch (nanobind::python_error& error) {
    error.restore();
  }
  if (result == nullptr && !reschedule_interrupt()) PyErr_WriteUnraisable(logger);
  Py_XDECREF(result);
}

class LogRecord final : public Deferred {
 public:
  LogRecord(LogLevel level, std::string_view text) : level_(level), text_(text) {}
  ~LogRecord() override { waiting_records.fetch_sub(1); }
  void run() noexcept override {
    refresh_log_threshold();
    log_line(level_, text_);
  }

 private:
  LogLevel level_;
  std::string text_;
};

void log_record(LogLevel level, std::string_view text) {
  if (static_cast<long>(level) < log_threshold.load(std::memory_order_relaxed) || interpreter_ending()) return;
  if (waiting_records.fetch_add(1) >= kMaxWaitingRecords) {  // bounds memory while no Python thread runs
    waiting_records.fetch_sub(1);
    return;
  }
  lines.push(std::make_unique<LogRecord>(level, text));
  wake_thread(kLines);
}

/// Finds the logger. Returns false, without an error, if it can't be had.
bool find_logger() noexcept {
  if (logger != nullptr) return true;
  // Adds no handler: if the application has configured none, the module logging prints warnings to stderr by itself.
  PyObject* const module = PyImport_ImportModule("logging");
  logger = module != nullptr ? PyObject_CallMethod(module, "getLogger", "s", "crossdock") : nullptr;
  Py_XDECREF(module);
  PyErr_Clear();
  return logger != nullptr;
}

}  // namespace

void defer(std::unique_ptr<Deferred> task) noexcept {
  tasks.push(std::move(task));
  if (interpreter_ending()) return;
  if (!thread_told.exchange(true)) wake_thread(kTasks);
  if (call_scheduled.exchange(true)) return;
  // Py_AddPendingCall() needs neither the GIL nor a thread state. If its queue is full, the next call into the package
  // drains.
  if (Py_AddPendingCall(&drain_from_main_thread, nullptr) != 0) call_scheduled.store(false);
}

void drain_deferred() noexcept { tasks.run(); }

bool thread_may_take_gil() noexcept { return PyGILState_GetThisThreadState() != nullptr; }

void drop(std::shared_ptr<const void> owner) noexcept {
  if (owner == nullptr) return;
  if (!interpreter_ending() && thread_may_take_gil()) {
    if (holds_gil()) {
      const SavedError saved;
      owner.reset();
    }
    return;  // Without the GIL, the parameter is destroyed here. Its destructor takes the GIL if it needs it.
  }
  defer_call([owner = std::move(owner)]() mutable { owner.reset(); });
}

PyOwner::~PyOwner() {
  if (interpreter_ending()) return;
  if (holds_gil()) {
    Py_DECREF(object_);
  } else {
    defer_call([object = object_] { Py_DECREF(object); });
  }
}

LogCallback log_to_python() {
  if (!find_logger()) return {};
  if (thread_pid != ::getpid()) nanobind::module_::import_("crossdock._deferred_thread").attr("start")();
  refresh_log_threshold();
  return log_record;
}

void log_here(LogLevel level, std::string_view text) {
  if (interpreter_ending()) return;
  const GilAcquire lock("logging");
  const SavedError saved;
  if (find_logger()) log_line(level, text);
}

void bind_deferred(nanobind::module_& module) {
  module.def("_deferred_descriptor", deferred_descriptor,
             "A descriptor that is readable when tasks wait to be run; -1 where this process has one already.");
  module.attr("_DEFERRED_LINES") = kLines;
  module.attr("_DEFERRED_END") = kEnd;
  module.def("_forget_deferred_thread", forget_deferred_thread, "Says that it couldn't be started.");
  module.def("_set_deferred_thread", set_deferred_thread, "Says which thread waits on that descriptor.");
  module.def("_end_deferred_thread", end_deferred_thread, "Ends it, and waits for that for some seconds.");
  module.def("_refresh_log_level", [] {
    if (logger != nullptr) refresh_log_threshold();
  });
  module.def("_drain", drain_from_thread, "Runs what the library's threads left for Python.");
}

}  // namespace crossdock::python
