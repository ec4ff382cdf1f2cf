#pragma once

#include <nanobind/nanobind.h>

#include <utility>

/// The one place where C++ exceptions become Python's.
namespace crossdock::python {

/// Looks up the classes of crossdock.errors, one per ErrorCode, offers them as the module's error_classes (by code, the
/// root at 0), and registers the translator. Needs the lock; called once. Throws Python's AttributeError where a code
/// has no class.
void register_errors(nanobind::module_& module);

/// The exception that is being handled becomes the Python error of this thread. Needs the lock. For functions that
/// CPython calls without nanobind in between.
void set_python_error() noexcept;

/// What `work` returns, or null with the Python error set.
template <class Work>
PyObject* guarded(Work&& work) noexcept {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace crossdock::python
