#pragma once

#include <Python.h>

namespace crossdock::python {

/// Owns a Py_buffer. The destructor releases it with the GIL held: at once if the thread holds the GIL, else deferred
/// to a Python thread. Leaks the buffer if the interpreter is ending.
class PyBufferView {
 public:
  PyBufferView() noexcept = default;
  PyBufferView(const PyBufferView&) = delete;
  PyBufferView& operator=(const PyBufferView&) = delete;
  ~PyBufferView();

  Py_buffer view{};
};

}  // namespace crossdock::python
