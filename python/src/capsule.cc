#include "capsule.h"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "array/column.h"
#include "batch.h"
#include "core/amounts.h"
#include "crossdock/core/error.h"
#include "crossdock/core/log.h"
#include "crossdock/exchange/sync.h"
#include "deferred.h"
#include "derived_stream.h"
#include "errors.h"
#include "gil.h"
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

/// Converts a batch. Call without the GIL. Adds a line to `log` if bytes are copied.
array::RecordBatch converted(array::RecordBatch batch, const array::Conversion& to) {
  std::int64_t copied = 0;
  batch = to.apply(std::move(batch), &copied);
  if (copied > 0) {
    log_here(LogLevel::kInfo, "copying " + counted(copied, "byte") + ": a consumer requested " +
                                  counted(batch.num_rows, "row") + " in another encoding");
  }
  return batch;
}

array::RecordBatch as_requested(array::RecordBatch batch, const Request& request) {
  if (request == nullptr) return batch;
  const GilRelease release;
  return converted(std::move(batch), *request);
}

std::unique_ptr<array::BatchStream> as_requested(std::unique_ptr<array::BatchStream> stream, const Request& request) {
  if (request == nullptr) return stream;
  auto next = [request, failure = std::exception_ptr()](array::BatchStream& of) mutable {
    if (failure) std::rethrow_exception(failure);
    std::optional<array::RecordBatch> batch = of.next();
    if (!batch) return batch;
    const GilReleaseIfHeld release;
    try {
      return std::optional(converted(*std::move(batch), *request));
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
  };
  return derived_stream(std::move(stream), std::move(next), request->schema());
}

void export_as(Form form, const array::RecordBatch& batch, ArrowDeviceArray* out) {
  array::export_batch(batch, out);
  if (form == Form::kTable) return;
  ArrowArray whole = out->array;
  out->array = *whole.children[0];
  whole.children[0]->release = nullptr;  // the child was moved out, and keeps the memory by itself
  whole.release(&whole);
}
void export_as(Form form, const array::RecordBatch& batch, ArrowArray* out) {
  ArrowDeviceArray whole{};
  export_as(form, batch, &whole);
  *out = whole.array;
}

template <class T>
nb::tuple capsules(const array::RecordBatch& batch, Form form) {
  return nb::make_tuple(schema_capsule(*batch.schema, form), make<T>([&](T* out) { export_as(form, batch, out); }));
}

}  // namespace

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

Request request_of(nb::handle requested, const std::shared_ptr<const array::Schema>& has, device::DeviceType on,
                   Form form) {
  if (requested.is_none()) return nullptr;
  if (PyCapsule_IsValid(requested.ptr(), kName<ArrowSchema>) == 0) {
    throw_type_error(requested, "requested_schema must be a capsule \"arrow_schema\" or None");
  }
  const array::TableSchema asked = array::import_table_schema(*content<ArrowSchema>(requested, "requested_schema"));
  if (asked.of_column != (form == Form::kColumn)) {
    throw UnsupportedTypeError(form == Form::kColumn
                                   ? "a struct is requested, but this is a column of another type"
                                   : "a column is requested, but this is a table: request a struct of its columns");
  }
  if (*asked.schema == *has) return nullptr;
  auto request = std::make_shared<const array::Conversion>(*has, asked.schema, form == Form::kTable);
  if (request->effort() == array::Conversion::Effort::kCast) {
    // The specification allows to export the schema that there is, and pyarrow casts tables. Its pa.array() doesn't.
    if (form == Form::kTable) return nullptr;
    throw UnsupportedTypeError("another type is requested: request the type that there is, and cast the result");
  }
  if (request->effort() == array::Conversion::Effort::kRead && on != device::DeviceType::kCpu) {
    throw UnsupportedError(
        "the requested schema needs a conversion, which is only made in host memory: copy the data "
        "first (RecordBatch.to(\"cpu\")), use the method for the CPU (__arrow_c_array__, "
        "__arrow_c_stream__), or request the schema that there is");
  }
  return request;
}

nb::object schema_capsule(const array::Schema& schema, Form form) {
  return make<ArrowSchema>([&](ArrowSchema* out) {
    if (form == Form::kTable) return array::export_schema(schema, out);
    array::export_field(schema.fields()[0], out);
  });
}

nb::tuple array_capsules(const array::RecordBatch& batch, nb::handle requested, Form form) {
  const Request request = request_of(requested, batch.schema, device::DeviceType::kCpu, form);
  return capsules<ArrowArray>(as_requested(on_host(batch), request), form);
}

nb::tuple device_array_capsules(const array::RecordBatch& batch, nb::handle requested, Form form) {
  const Request request = request_of(requested, batch.schema, batch.device.type, form);
  return capsules<ArrowDeviceArray>(as_requested(with_event(batch), request), form);
}

nb::object stream_capsule(std::unique_ptr<array::BatchStream> stream, const Request& request) {
  stream = as_requested(std::move(stream), request);
  return make<ArrowArrayStream>([&](ArrowArrayStream* out) { array::export_stream(std::move(stream), out); });
}

nb::object device_stream_capsule(std::unique_ptr<array::BatchStream> stream, const Request& request) {
  stream = as_requested(std::move(stream), request);
  return make<ArrowDeviceArrayStream>(
      [&](ArrowDeviceArrayStream* out) { array::export_device_stream(std::move(stream), out); });
}

template ArrowSchema* content(nb::handle, const char*);
template ArrowArray* content(nb::handle, const char*);
template ArrowDeviceArray* content(nb::handle, const char*);
template ArrowArrayStream* content(nb::handle, const char*);
template ArrowDeviceArrayStream* content(nb::handle, const char*);

void refuse_keywords(const char* method, const nb::kwargs& keywords) {
  for (const auto& [name, value] : keywords) {
    if (value.is_none()) continue;
    throw_python(PyExc_NotImplementedError, "%s: the keyword %R is not supported; leave it out or give None", method,
                 name.ptr());
  }
}

}  // namespace crossdock::python
