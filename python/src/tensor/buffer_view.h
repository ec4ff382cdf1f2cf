#pragma once

#include <Python.h>

namespace crossdock::python {

/// A Py_buffer and its release. The release runs with the GIL held: at once if the thread holds it, else deferred to a
/// Python thread. Leaked when the interpreter is ending.
class PyBufferView {
 public:
  PyBufferView() noexcept = default;
  PyBufferView(const PyBufferView&) = delete;
  PyBufferView& operator=(const PyBufferView&) = delete;
  ~PyBufferView();

  Py_buffer view{};
};

}  // namespace crossdock::python
