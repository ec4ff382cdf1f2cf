#include "producer.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capsule.h"
#include "crossdock/core/error.h"
#include "deferred.h"
#include "gil.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::BatchStream;
using array::RecordBatch;
using array::Schema;

bool is_struct(const ArrowSchema& schema) noexcept {
  return schema.format != nullptr && std::string_view(schema.format) == "+s" && schema.dictionary == nullptr;
}

/// The schema of a table whose one column is `field`, which stays the caller's.
std::shared_ptr<const Schema> schema_of_column(ArrowSchema* field) {
  ArrowSchema table{};
  table.format = "+s";
  table.name = "";
  table.n_children = 1;
  table.children = &field;
  table.release = [](ArrowSchema* self) { self->release = nullptr; };
  return array::import_schema(table);
}

void release_column(ArrowArray* table) noexcept {
  ArrowArray* const column = table->children[0];
  if (column->release != nullptr) column->release(column);
  delete column;
  delete[] table->children;
  delete[] table->buffers;
  table->release = nullptr;
}

/// Moves `*column` into a struct array of that one child. On a throw it stays the caller's.
ArrowDeviceArray table_of_column(ArrowDeviceArray* column) {
  auto child = std::make_unique<ArrowArray>();
  auto children = std::make_unique<ArrowArray*[]>(1);
  auto buffers = std::make_unique<const void*[]>(1);
  ArrowDeviceArray table = *column;
  *child = column->array;
  column->array.release = nullptr;
  table.array = {};
  table.array.length = child->length;
  table.array.n_buffers = 1;
  table.array.n_children = 1;
  children[0] = child.release();
  table.array.children = children.release();
  table.array.buffers = buffers.release();
  table.array.release = release_column;
  return table;
}

/// Takes over `*array` as a batch of `schema`; whatever happens it is not the caller's any more.
RecordBatch take_batch(const std::shared_ptr<const Schema>& schema, bool is_table, ArrowDeviceArray* array) {
  struct Guard {
    ArrowDeviceArray value;
    ~Guard() {
      if (value.array.release != nullptr) value.array.release(&value.array);
    }
  } taken{*array};
  array->array.release = nullptr;
  if (!is_table) taken.value = table_of_column(&taken.value);
  return array::import_batch(schema, &taken.value);
}

ArrowDeviceArray on_cpu(const ArrowArray& array) noexcept {
  ArrowDeviceArray result{};
  result.array = array;
  result.device_id = -1;
  result.device_type = ARROW_DEVICE_CPU;
  return result;
}

/// A source's own failure. On a thread of the server's it is for a consumer, who sees that it came from the other end.
[[noreturn]] void throw_failure(const std::string& text) {
  if (is_source_thread()) throw RemoteError(text);
  throw InvalidDataError(text);
}

int next_array(ArrowArrayStream* stream, ArrowDeviceArray* out) {
  ArrowArray array{};
  const int status = stream->get_next(stream, &array);
  if (status == 0) *out = on_cpu(array);
  return status;
}
int next_array(ArrowDeviceArrayStream* stream, ArrowDeviceArray* out) { return stream->get_next(stream, out); }

template <class CStream>
std::string last_error(CStream* stream, int status) {
  const char* const text = stream->get_last_error(stream);
  return text != nullptr ? text : "errno " + std::to_string(status);
}

/// A C stream whose failures keep their producer's words. Arrays that aren't structs (a chunked array, a series) become
/// batches of one column.
template <class CStream>
class CallStream final : public BatchStream {
 public:
  /// Takes over `*stream`.
  CallStream(std::shared_ptr<const Schema> schema, bool is_table, CStream* stream) noexcept
      : schema_(std::move(schema)), is_table_(is_table), stream_(*stream) {
    stream->release = nullptr;
  }
  CallStream(const CallStream&) = delete;
  CallStream& operator=(const CallStream&) = delete;
  ~CallStream() override { stream_.release(&stream_); }

  const std::shared_ptr<const Schema>& schema() const override { return schema_; }
  std::optional<RecordBatch> next() override {
    ArrowDeviceArray array{};
    const int status = next_array(&stream_, &array);
    if (status != 0) throw_failure("the source failed: " + last_error(&stream_, status));
    if (array.array.release == nullptr) return std::nullopt;
    return take_batch(schema_, is_table_, &array);
  }

 private:
  std::shared_ptr<const Schema> schema_;
  bool is_table_;
  CStream stream_;
};

/// What keeps the producer's memory: an owner, and the events and dictionaries that have shares of the same one.
void keep_anywhere(RecordBatch* batch, const std::shared_ptr<const void>& owner) {
  batch->owner = owner;
  if (batch->event.native() != nullptr) {
    batch->event = device::Event(batch->event.native(), std::const_pointer_cast<void>(owner));
  }
  for (auto& dictionary : batch->dictionaries) {
    if (dictionary == nullptr) continue;
    auto mine = std::make_shared<RecordBatch>(*dictionary);
    keep_anywhere(mine.get(), owner);
    dictionary = std::move(mine);
  }
}

/// What may be dropped on any thread. `batch` was imported just now.
RecordBatch kept_anywhere(RecordBatch batch) {
  const std::shared_ptr<const void> owner = held(std::move(batch.owner));
  keep_anywhere(&batch, owner);
  return batch;
}

/// A producer's stream and its batches, which may be dropped on any thread.
class ProducerStream final : public BatchStream {
 public:
  explicit ProducerStream(std::unique_ptr<BatchStream> stream)
      : schema_(stream->schema()), stream_(held(std::shared_ptr<BatchStream>(std::move(stream)))) {}
  const std::shared_ptr<const Schema>& schema() const override { return schema_; }
  std::optional<RecordBatch> next() override {
    if (interpreter_ending()) throw ClosedError("reading a Python source: the Python interpreter is ending");
    mark_source_thread();
    std::optional<RecordBatch> batch = stream_->next();
    if (!batch) return batch;
    return kept_anywhere(*std::move(batch));
  }

 private:
  std::shared_ptr<const Schema> schema_;
  std::shared_ptr<BatchStream> stream_;
};

/// Takes over `*stream`. On a throw it is still the capsule's.
template <class CStream>
std::unique_ptr<BatchStream> take_stream(CStream* stream) {
  struct Guard {
    ArrowSchema value{};
    ~Guard() {
      if (value.release != nullptr) value.release(&value);
    }
  } schema;
  const int status = stream->get_schema(stream, &schema.value);
  if (status != 0) throw_failure("the source gave no schema: " + last_error(stream, status));
  if (schema.value.release == nullptr) throw InvalidDataError("the source gave a released schema");
  const bool table = is_struct(schema.value);
  return std::make_unique<CallStream<CStream>>(
      table ? array::import_schema(schema.value) : schema_of_column(&schema.value), table, stream);
}

/// Only host memory can be served so far.
void require_cpu(const device::Device& device) {
  if (device.type == device::DeviceType::kCpu) return;
  throw UnsupportedTypeError("this data is in the memory of " + device::to_string(device) +
                             ", and only host memory can be served so far: copy it to the host first, as in "
                             "crossdock.RecordBatch(data).to(\"cpu\")");
}

/// Calls `object.method()` that gives a pair of capsules.
std::pair<nb::object, nb::object> pair_from(nb::handle object, const char* method) {
  const nb::object pair = object.attr(method)();
  if (!nb::isinstance<nb::tuple>(pair) || nb::len(pair) != 2) {
    throw InvalidDataError(std::string(method) + " gave no pair of capsules: it breaks the Arrow PyCapsule interface");
  }
  return {nb::object(pair[0]), nb::object(pair[1])};
}

RecordBatch one_array(ArrowSchema* c_schema, ArrowDeviceArray* array) {
  const bool table = is_struct(*c_schema);
  return take_batch(table ? array::import_schema(*c_schema) : schema_of_column(c_schema), table, array);
}

/// True if it says so itself, which is cheaper than to ask for a device array of the host.
bool says_cpu(nb::handle producer) {
  const nb::object is_cpu = nb::getattr(producer, "is_cpu", nb::none());
  return is_cpu.ptr() == Py_True;
}

/// The method that doesn't copy: of data on a device the one for the host would.
RecordBatch take_array(nb::handle producer) {
  const bool has_device_array = nb::hasattr(producer, "__arrow_c_device_array__");
  if (nb::hasattr(producer, "__arrow_c_array__") && (!has_device_array || says_cpu(producer))) {
    const auto [schema, array] = pair_from(producer, "__arrow_c_array__");
    ArrowArray* const c_array = array_in(array, "__arrow_c_array__");
    ArrowDeviceArray taken = on_cpu(*c_array);
    ArrowSchema* const c_schema = schema_in(schema, "__arrow_c_array__");
    c_array->release = nullptr;
    struct Guard {
      ArrowDeviceArray* value;
      ~Guard() {
        if (value->array.release != nullptr) value->array.release(&value->array);
      }
    } guard{&taken};
    return one_array(c_schema, &taken);
  }
  if (has_device_array) {
    const auto [schema, array] = pair_from(producer, "__arrow_c_device_array__");
    ArrowDeviceArray* const c_array = device_array_in(array, "__arrow_c_device_array__");
    return one_array(schema_in(schema, "__arrow_c_device_array__"), c_array);
  }
  throw UnsupportedTypeError(std::string("an object of type ") + nb::type_name(producer.type()).c_str() +
                             " can't be served: it has none of __arrow_c_stream__, __arrow_c_device_stream__, "
                             "__arrow_c_array__, __arrow_c_device_array__");
}

std::unique_ptr<BatchStream> open(nb::handle producer) {
  if (nb::hasattr(producer, "__arrow_c_stream__")) {
    const nb::object capsule = producer.attr("__arrow_c_stream__")();
    return take_stream(stream_in(capsule, "__arrow_c_stream__"));
  }
  if (nb::hasattr(producer, "__arrow_c_device_stream__")) {
    const nb::object capsule = producer.attr("__arrow_c_device_stream__")();
    ArrowDeviceArrayStream* const stream = device_stream_in(capsule, "__arrow_c_device_stream__");
    require_cpu({.type = static_cast<device::DeviceType>(stream->device_type), .id = 0});
    return take_stream(stream);
  }
  std::vector<RecordBatch> batches;
  if (nb::isinstance<nb::list>(producer) || nb::isinstance<nb::tuple>(producer)) {
    for (const nb::handle batch : nb::borrow<nb::sequence>(producer)) batches.push_back(take_array(batch));
    if (batches.empty()) throw InvalidArgumentError("a list without a batch says no schema");
  } else {
    batches.push_back(take_array(producer));
  }
  for (const RecordBatch& batch : batches) require_cpu(batch.device);
  auto schema = batches.front().schema;
  return array::make_stream(std::move(schema), std::move(batches));
}

/// "ValueError: text" of a Python exception.
std::string describe(const nb::python_error& error) {
  std::string text = nb::type_name(error.type()).c_str();
  PyObject* const words = PyObject_Str(error.value().ptr());
  const char* const utf8 = words != nullptr ? PyUnicode_AsUTF8(words) : nullptr;
  if (utf8 != nullptr && *utf8 != '\0') text.append(": ").append(utf8);
  if (utf8 == nullptr) PyErr_Clear();
  Py_XDECREF(words);
  return text;
}

class InterruptibleStream final : public array::BatchStream {
 public:
  InterruptibleStream(std::unique_ptr<array::BatchStream> stream, transport::InterruptHook hook)
      : stream_(std::move(stream)), hook_(std::move(hook)) {}
  const std::shared_ptr<const array::Schema>& schema() const override { return stream_->schema(); }
  std::optional<array::RecordBatch> next() override {
    if (hook_()) throw InterruptedError("reading the table was interrupted");
    return stream_->next();
  }

 private:
  std::unique_ptr<array::BatchStream> stream_;
  transport::InterruptHook hook_;
};

}  // namespace

std::unique_ptr<BatchStream> open_producer(nb::handle producer) {
  return std::make_unique<ProducerStream>(open(producer));
}

RecordBatch open_batch(nb::handle producer) { return kept_anywhere(take_array(producer)); }

std::function<std::unique_ptr<BatchStream>()> factory_of(nb::handle callable) {
  auto owner = std::make_shared<PyOwner>(callable.ptr());
  return [owner = std::move(owner)]() -> std::unique_ptr<BatchStream> {
    mark_source_thread();
    const GilAcquire gil("calling a Python source");
    try {
      const nb::object producer = nb::handle(owner->get())();
      return open_producer(producer);
    } catch (const nb::python_error& error) {
      throw RemoteError("the source's callable raised " + describe(error));
    }
  };
}

std::unique_ptr<array::BatchStream> interruptible_stream(std::unique_ptr<array::BatchStream> stream,
                                                         transport::InterruptHook hook) {
  return std::make_unique<InterruptibleStream>(std::move(stream), std::move(hook));
}

}  // namespace crossdock::python
