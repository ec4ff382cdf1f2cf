#include "capsule.h"

#include <string>

#include "batch.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "wait.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

template <class T>
constexpr const char* kName = nullptr;
template <>
constexpr const char* kName<ArrowSchema> = "arrow_schema";
template <>
constexpr const char* kName<ArrowArray> = "arrow_array";
template <>
constexpr const char* kName<ArrowDeviceArray> = "arrow_device_array";
template <>
constexpr const char* kName<ArrowArrayStream> = "arrow_array_stream";
template <>
constexpr const char* kName<ArrowDeviceArrayStream> = "arrow_device_array_stream";

template <class T>
bool live(const T& value) noexcept {
  return value.release != nullptr;
}
bool live(const ArrowDeviceArray& value) noexcept { return value.array.release != nullptr; }

template <class T>
void release(T& value) noexcept {
  if (live(value)) value.release(&value);
}
void release(ArrowDeviceArray& value) noexcept {
  if (live(value)) value.array.release(&value.array);
}

template <class T>
void destroy(PyObject* capsule) noexcept {
  // A capsule that a consumer renamed doesn't own its structure any more.
  if (PyCapsule_IsValid(capsule, kName<T>) == 0) return;
  const std::unique_ptr<T> value(static_cast<T*>(PyCapsule_GetPointer(capsule, kName<T>)));
  release(*value);
}

/// Makes a capsule. `fill(T*)` sets the structure, or throws and leaves it released.
template <class T, class Fill>
nb::object make(Fill&& fill) {
  auto value = std::make_unique<T>();
  fill(value.get());
  PyObject* const capsule = PyCapsule_New(value.get(), kName<T>, &destroy<T>);
  if (capsule == nullptr) {
    release(*value);
    throw nb::python_error();
  }
  static_cast<void>(value.release());  // the capsule owns it now
  return nb::steal(capsule);
}

template <class T>
T* content(nb::handle capsule, const char* from) {
  if (PyCapsule_IsValid(capsule.ptr(), kName<T>) == 0) {
    throw InvalidDataError(std::string(from) + " must return a capsule named \"" + kName<T> +
                           "\", as the Arrow PyCapsule interface specifies");
  }
  T* const value = static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), kName<T>));
  if (!live(*value)) {
    throw InvalidDataError(std::string(from) + " gave a capsule \"" + kName<T> +
                           "\" whose content was already consumed; a capsule can be used only once");
  }
  return value;
}

/// Prepares a batch for export with an event for all that is pending. Waits if the memory is the host's, because Arrow
/// has no event for CPU memory.
array::RecordBatch with_event(array::RecordBatch batch) {
  if (batch.device.type == device::DeviceType::kCpu) return on_host(batch);
  // Recorded here, where the GIL can be released: the event stands for the queue from now on.
  batch.event = pending_without_lock(batch);
  exchange::keep_queue(&batch);
  batch.queue.reset();
  return batch;
}

/// Exports the column of a batch of one column, without the struct of columns.
void export_column(const array::RecordBatch& column, ArrowDeviceArray* out) {
  array::export_batch(column, out);
  ArrowArray whole = out->array;
  out->array = *whole.children[0];
  whole.children[0]->release = nullptr;  // the child was moved out, and keeps the memory by itself
  whole.release(&whole);
}

}  // namespace

nb::object schema_capsule(const array::Schema& schema) {
  return make<ArrowSchema>([&](ArrowSchema* out) { array::export_schema(schema, out); });
}

nb::object array_capsule(const array::RecordBatch& batch) {
  return make<ArrowArray>([&](ArrowArray* out) {
    ArrowDeviceArray whole{};
    array::export_batch(on_host(batch), &whole);
    *out = whole.array;
  });
}

nb::object device_array_capsule(const array::RecordBatch& batch) {
  return make<ArrowDeviceArray>([&](ArrowDeviceArray* out) { array::export_batch(with_event(batch), out); });
}

nb::object column_schema_capsule(const array::Schema& schema) {
  return make<ArrowSchema>([&](ArrowSchema* out) { array::export_field(schema.fields()[0], out); });
}

nb::object device_column_capsule(const array::RecordBatch& column) {
  return make<ArrowDeviceArray>([&](ArrowDeviceArray* out) { export_column(with_event(column), out); });
}

nb::object column_capsule(const array::RecordBatch& column) {
  return make<ArrowArray>([&](ArrowArray* out) {
    ArrowDeviceArray whole{};
    export_column(on_host(column), &whole);
    *out = whole.array;
  });
}

nb::object stream_capsule(std::unique_ptr<array::BatchStream> stream) {
  return make<ArrowArrayStream>([&](ArrowArrayStream* out) { array::export_stream(std::move(stream), out); });
}

nb::object device_stream_capsule(std::unique_ptr<array::BatchStream> stream) {
  return make<ArrowDeviceArrayStream>(
      [&](ArrowDeviceArrayStream* out) { array::export_device_stream(std::move(stream), out); });
}

ArrowSchema* schema_in(nb::handle capsule, const char* from) { return content<ArrowSchema>(capsule, from); }
ArrowArray* array_in(nb::handle capsule, const char* from) { return content<ArrowArray>(capsule, from); }
ArrowDeviceArray* device_array_in(nb::handle capsule, const char* from) {
  return content<ArrowDeviceArray>(capsule, from);
}
ArrowArrayStream* stream_in(nb::handle capsule, const char* from) { return content<ArrowArrayStream>(capsule, from); }
ArrowDeviceArrayStream* device_stream_in(nb::handle capsule, const char* from) {
  return content<ArrowDeviceArrayStream>(capsule, from);
}

void refuse_keywords(const char* method, const nb::kwargs& keywords) {
  for (const auto& [name, value] : keywords) {
    if (value.is_none()) continue;
    PyErr_Format(PyExc_NotImplementedError, "%s: the keyword %R is not supported; leave it out or give None", method,
                 name.ptr());
    throw nb::python_error();
  }
}

}  // namespace crossdock::python
