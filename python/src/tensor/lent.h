#pragma once

#include <Python.h>

namespace crossdock::python {

/// A buffer that a Python object lent us; given back with the interpreter lock, on whatever thread this goes.
class Lent {
 public:
  Lent() noexcept = default;
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent();

  Py_buffer view{};
};

}  // namespace crossdock::python
