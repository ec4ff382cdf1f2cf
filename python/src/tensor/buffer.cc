#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "buffer_view.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "described_format.h"
#include "format.h"
#include "tensor.h"
#include "transfer.h"

namespace crossdock::python {
namespace {

using array::Extents;
using array::Tensor;

static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t), "shapes and strides are shown to buffer consumers in place");

/// The bits of a request that ask for a memory order, without the bits that say that strides are understood.
constexpr int kContiguous = (PyBUF_C_CONTIGUOUS | PyBUF_F_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS) & ~PyBUF_STRIDES;

/// The address of a buffer without bytes. Some consumers don't accept null.
char nowhere[64];

int refuse(const std::string& why) noexcept {
  PyErr_SetString(PyExc_BufferError, why.c_str());
  return -1;
}

int refuse_what_the_buffer_cant_say(const Tensor& tensor, int flags) {
  if (!tensor.host_accessible()) {
    return refuse("the tensor is in memory of " + device::to_string(tensor.device) +
                  ", which the host can't read; copy it with .to(\"cpu\")");
  }
  if (tensor.mask) return refuse("the buffer protocol has no validity mask, but the tensor has one");
  if ((flags & PyBUF_WRITABLE) != 0 && tensor.read_only) return refuse("the tensor is read-only");
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES && (flags & kContiguous) == 0) return 0;
  const bool contiguous = tensor.c_contiguous();
  const bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
  if (wants_c && !contiguous) return refuse("the tensor isn't contiguous in C order; make a copy of it");
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !tensor.f_contiguous()) {
    return refuse("the tensor isn't contiguous in Fortran order; make a copy of it");
  }
  if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !contiguous && !tensor.f_contiguous()) {
    return refuse("the tensor isn't contiguous; make a copy of it");
  }
  return 0;
}

/// Returns the buffer format of the elements, or null if there is none. Valid as long as the object lives.
const char* format_of(PyTensor* object) {
  if (const char* const number = format_of_type(object->tensor.type)) return number;
  if (!object->format) object->format = std::make_unique<const std::string>(described_format(object->tensor));
  return object->format->empty() ? nullptr : object->format->c_str();
}

/// Handles a request without a format for elements that aren't numbers. Such elements are exported as bytes, with two
/// exceptions. Writing is refused. A request while a Python error is set is refused too: the consumer's first request
/// failed, and it hasn't looked at the error. torch asks in this way, and reads the bytes of any object as float32.
/// Returns 0 if the request is accepted, else -1.
int refuse_untyped_bytes(const Tensor& tensor, int flags) {
  if (PyErr_Occurred() != nullptr) return -1;
  if (flags != PyBUF_WRITABLE) return 0;
  return refuse("bytes of elements of type " + array::element_type_name(tensor.type) +
                " can't be exported as writable bytes without a format; pass an array of a library that has the type, "
                "as in numpy.asarray(tensor)");
}

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  auto* const object = reinterpret_cast<PyTensor*>(self);
  // A consumer that accepts any strides and formats gets the cached view at once, which never changes.
  const bool takes_all = (flags & PyBUF_RECORDS_RO) == PyBUF_RECORDS_RO && (flags & kContiguous) == 0;
  const bool writes = (flags & PyBUF_WRITABLE) != 0;
  if (takes_all && object->shown.format != nullptr && !(writes && object->tensor.read_only)) [[likely]] {
    *view = object->shown;
    Py_INCREF(self);
    view->obj = self;
    return 0;
  }
  view->obj = nullptr;
  try {
    const Tensor& tensor = object->tensor;
    const bool wants_format = (flags & PyBUF_FORMAT) != 0;
    const char* const format = wants_format ? format_of(object) : nullptr;
    if (wants_format && format == nullptr) {
      return refuse("the buffer protocol has no format for elements of type " + array::element_type_name(tensor.type));
    }
    const bool is_number = format_of_type(tensor.type) != nullptr;
    if (!wants_format && !is_number && refuse_untyped_bytes(tensor, flags) != 0) return -1;
    if (refuse_what_the_buffer_cant_say(tensor, flags) != 0) return -1;
    // The view points to the tensor's own shape and strides: the tensor never changes, and the view keeps it alive.
    const auto numbers = [&](std::span<const std::int64_t> of) {
      return of.empty() ? nullptr : const_cast<Py_ssize_t*>(reinterpret_cast<const Py_ssize_t*>(of.data()));
    };
    Py_buffer whole{};
    whole.buf = tensor.data != nullptr ? tensor.data : nowhere;
    whole.len = tensor.nbytes();
    whole.itemsize = tensor.type.itemsize();
    whole.readonly = tensor.read_only ? 1 : 0;
    whole.format = const_cast<char*>(format);
    whole.ndim = tensor.ndim();
    whole.shape = numbers(tensor.shape());
    whole.strides = numbers(tensor.strides());
    if (!tensor.ready()) {
      wait_for(tensor);  // not cached: there may be new work on its queue when the next request comes
    } else if (wants_format) {
      object->shown = whole;
    }
    *view = whole;
    if ((flags & PyBUF_ND) == 0) {
      view->shape = nullptr;
      view->ndim = 1;  // the consumer sees bytes, without a shape
    }
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) view->strides = nullptr;
    Py_INCREF(self);
    view->obj = self;
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

bool tensor_from_buffer(PyObject* object, Tensor* out) {
  auto buffer = std::make_shared<PyBufferView>();
  if (PyObject_GetBuffer(object, &buffer->view, PyBUF_RECORDS_RO) != 0) {
    // Some arrays have no buffer but implement another protocol, for example arrays of dates.
    if (PyErr_ExceptionMatches(PyExc_BufferError) == 0 && PyErr_ExceptionMatches(PyExc_ValueError) == 0) {
      throw nanobind::python_error();
    }
    PyErr_Clear();
    return false;
  }
  const Py_buffer& view = buffer->view;
  auto type = type_of_format(view.format, view.itemsize);
  if (!type) return false;
  if (view.ndim < 0 || view.ndim > array::kMaxTensorDimensions) {
    throw InvalidDataError("a buffer has " + std::to_string(view.ndim) + " dimensions");
  }
  out->type = std::move(*type);
  out->extents = Extents(view.ndim);
  const auto shape = out->extents.shape();
  const auto strides = out->extents.strides();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    shape[d] = view.shape != nullptr ? view.shape[d] : view.len / (view.itemsize > 0 ? view.itemsize : 1);
    if (view.strides != nullptr) strides[d] = view.strides[d];
  }
  if (view.strides == nullptr) array::set_row_major(out, "a buffer");
  out->data = view.buf;
  out->read_only = view.readonly != 0;
  array::check_tensor(out, "a buffer");
  out->owner = std::move(buffer);
  return true;
}

}  // namespace crossdock::python
