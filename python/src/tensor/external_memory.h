#pragma once

#include <nanobind/nanobind.h>

#include <memory>

namespace crossdock::python {

/// Owns memory of an external allocator, with the Python function that frees it.
///
/// The function is called once, with the address, on a Python thread with the GIL held, when the last copy of owner()
/// is dropped. Its exceptions go to sys.unraisablehook. It isn't called when the interpreter is ending, in a forked
/// child, or before arm(): if the import fails, the memory still belongs to the caller.
class ExternalMemory {
 public:
  /// Call with the GIL held. Throws nb::python_error (TypeError) if `deleter` isn't callable.
  ExternalMemory(nanobind::handle deleter, nanobind::handle address);

  /// Returns the owner of the memory. It holds `keep` until the function was called.
  std::shared_ptr<const void> owner(std::shared_ptr<const void> keep) noexcept;
  /// Transfers the memory from the caller to owner(): from now on the function is called.
  void arm() noexcept;

 private:
  struct Call;
  std::shared_ptr<Call> call_;
};

}  // namespace crossdock::python
