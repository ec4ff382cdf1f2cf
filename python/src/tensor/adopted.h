#pragma once

#include <nanobind/nanobind.h>

#include <memory>

namespace crossdock::python {

/// Memory of somebody's own allocator, with the Python function that frees it.
///
/// The function is called once, with the address, on a thread of Python's and with the interpreter lock, when the last
/// copy of owner() goes; an exception of its goes to sys.unraisablehook. Not once the interpreter ends: the process
/// takes the memory along. Nor in a forked child. Until arm() was called it is never called: memory that couldn't be
/// taken in stays its caller's.
class Adopted {
 public:
  /// `keep` is held until the function was called. Needs the lock. Throws nb::python_error (TypeError) for what can't
  /// be called.
  Adopted(nanobind::handle deleter, nanobind::handle address);

  /// What keeps the memory, and `keep` with it.
  std::shared_ptr<const void> owner(std::shared_ptr<const void> keep) noexcept;
  void arm() noexcept;

 private:
  struct Call;
  std::shared_ptr<Call> call_;
};

}  // namespace crossdock::python
