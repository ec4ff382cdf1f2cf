#include "buffers.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "../deferred.h"
#include "../errors.h"
#include "../gil.h"
#include "crossdock/core/error.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

std::string frame_name(std::size_t number) { return "frame " + std::to_string(number); }

/// Returns true if elements of this format (PEP 3118) have Python objects. Fields' names are between colons.
bool has_objects(std::string_view format) noexcept {
  bool in_name = false;
  for (const char c : format) {
    if (c == ':') in_name = !in_name;
    if (c == 'O' && !in_name) return true;
  }
  return false;
}

/// Returns true if the object says by NumPy's attributes that its elements have no Python objects.
bool dtype_has_no_objects(nb::handle object) {
  return nb::getattr(nb::getattr(object, "dtype", nb::none()), "hasobject", nb::none()).is(nb::bool_(false));
}

/// Adds "frame 3" as a note to the Python error of this thread.
[[noreturn]] void rethrow_with_number(std::size_t number) {
  nb::python_error error;
  try {
    nb::handle(error.value()).attr("add_note")(frame_name(number));
  } catch (nb::python_error&) {  // no memory for the note: the error itself says enough
  }
  throw std::move(error);
}

/// Exports a buffer for which the request with a format failed: the error of this thread says why. Types of NumPy's
/// for which the buffer protocol has no format, such as dates, are exported without one.
void export_without_format(nb::handle object, std::size_t number, Py_buffer* view) {
  if (PyErr_ExceptionMatches(PyExc_BufferError) == 0 && PyErr_ExceptionMatches(PyExc_ValueError) == 0) {
    rethrow_with_number(number);
  }
  nb::python_error first;
  if (PyObject_GetBuffer(object.ptr(), view, PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    first.restore();
    rethrow_with_number(number);
  }
  try {
    if (PyBuffer_IsContiguous(view, 'A') == 0) {
      throw InvalidArgumentError(frame_name(number) +
                                 " isn't contiguous memory; send a copy of it, as of numpy.ascontiguousarray(array)");
    }
    if (dtype_has_no_objects(object)) return;
  } catch (...) {
    PyBuffer_Release(view);
    throw;
  }
  PyBuffer_Release(view);
  first.restore();
  rethrow_with_number(number);
}

void release(std::vector<Py_buffer>& views) noexcept {
  const SavedError saved;  // an exporter may run Python code
  for (Py_buffer& view : views) PyBuffer_Release(&view);
}

}  // namespace

SentBuffers::~SentBuffers() {
  if (views_.empty()) return;
  if (interpreter_ending()) return;  // no thread can release them: what they keep is never freed
  if (holds_gil()) {
    release(views_);
    return;
  }
  defer_call([views = std::move(views_)]() mutable { release(views); });
  loop_->wake();
}

std::span<const std::byte> SentBuffers::add(nb::handle object, std::size_t number) {
  Py_buffer view{};
  if (PyObject_CheckBuffer(object.ptr()) == 0) {
    throw_python(PyExc_TypeError, "frame %zu must have the buffer protocol, as bytes and arrays have, not %s", number,
                 type_name_of(object.ptr()).c_str());
  }
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_ANY_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    export_without_format(object, number, &view);
  } else if (view.format != nullptr && has_objects(view.format)) {
    PyBuffer_Release(&view);
    throw InvalidArgumentError(frame_name(number) +
                               " has Python objects as its elements, which mean nothing to another process; pickle it");
  }
  views_.push_back(view);
  return {static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len)};
}

std::vector<peers::OutgoingFrame> frames_of(nb::handle buffers, std::shared_ptr<Completions> loop) {
  if (PyObject_CheckBuffer(buffers.ptr()) != 0) {
    throw_type_error(buffers, "frames must be a list of buffers, as in [buffer]");
  }
  // A tuple can't be changed by Python code of an exporter meanwhile.
  PyObject* const items = PySequence_Tuple(buffers.ptr());
  if (items == nullptr) throw nb::python_error();
  const auto tuple = nb::steal<nb::tuple>(items);
  const auto owner = std::make_shared<SentBuffers>(std::move(loop));
  owner->reserve(tuple.size());
  std::vector<peers::OutgoingFrame> frames;
  frames.reserve(tuple.size());
  for (const nb::handle object : tuple) {
    const auto bytes = owner->add(object, frames.size());
    frames.push_back({.data = bytes.data(), .size = bytes.size(), .owner = owner});
  }
  return frames;
}

}  // namespace crossdock::python
