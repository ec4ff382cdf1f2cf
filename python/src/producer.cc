#include "producer.h"

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "array/column.h"
#include "capsule.h"
#include "crossdock/core/error.h"
#include "deferred.h"
#include "derived_stream.h"
#include "errors.h"
#include "gil.h"
#include "source_thread.h"
#include "tensor/names.h"
#include "tensor/tensor.h"
#include "tensor/transfer.h"
#include "types.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::BatchStream;
using array::RecordBatch;
using array::Schema;

/// Imports `*array` as a batch of `schema`. Takes ownership of `*array` on success and on failure.
RecordBatch take_batch(const array::TableSchema& schema, ArrowDeviceArray* array) {
  struct Guard {
    ArrowDeviceArray value;
    ~Guard() {
      if (value.array.release != nullptr) value.array.release(&value.array);
    }
  } taken{*array};
  array->array.release = nullptr;
  return array::import_table(schema, &taken.value);
}

/// Reads a source on a thread of the server. Turns errors into RemoteError, which tells the consumer that the failure
/// happened on the server: a file, memory or a permission is missing there, not on the consumer's side.
/// UnsupportedTypeError is passed on unchanged, as it concerns the consumer.
template <class Read>
auto for_consumer(Read&& read) {
  try {
    return read();
  } catch (const UnsupportedTypeError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidData || error.code() == ErrorCode::kRemote) throw RemoteError(error.what());
    throw RemoteError(std::string(error_name(error.code())) + ": " + error.what());
  }
}

/// Makes `owner` the owner of a batch, its event and its dictionaries.
void keep_anywhere(RecordBatch* batch, const std::shared_ptr<const void>& owner) {
  batch->owner = owner;
  if (batch->event.native() != nullptr) {
    batch->event = device::Event(device::NativeEvent(batch->event.native()), std::const_pointer_cast<void>(owner));
  }
  for (auto& dictionary : batch->dictionaries) {
    if (dictionary == nullptr) continue;
    auto mine = std::make_shared<RecordBatch>(*dictionary);
    keep_anywhere(mine.get(), owner);
    dictionary = std::move(mine);
  }
}

/// Makes a batch that may be dropped on any thread. `batch` was just imported: its event and dictionaries share its
/// owner.
RecordBatch kept_anywhere(RecordBatch batch) {
  const std::shared_ptr<const void> owner = defer_drop(std::move(batch.owner));
  keep_anywhere(&batch, owner);
  return batch;
}

/// A producer's stream. The stream and its batches may be dropped on any thread.
class ProducerStream final : public BatchStream {
 public:
  explicit ProducerStream(std::unique_ptr<BatchStream> stream)
      : schema_(stream->schema()), stream_(defer_drop(std::shared_ptr<BatchStream>(std::move(stream)))) {}
  const std::shared_ptr<const Schema>& schema() const override { return schema_; }
  device::DeviceType device_type() const override { return stream_->device_type(); }
  std::optional<RecordBatch> next() override {
    if (interpreter_ending()) throw ClosedError("reading a Python source: the Python interpreter is ending");
    std::optional<RecordBatch> batch = stream_->next();
    if (!batch) return batch;
    return kept_anywhere(*std::move(batch));
  }

 private:
  std::shared_ptr<const Schema> schema_;
  std::shared_ptr<BatchStream> stream_;
};

/// Returns true for a schema of one column of numbers, or of fixed-size lists of numbers.
bool is_numbers(const Schema& schema) noexcept {
  const auto n_nodes = static_cast<std::int32_t>(schema.nodes().size());
  return schema.fields().size() == 1 && schema.dictionaries().empty() && schema.n_buffers() == n_nodes + 1;
}

/// Makes an empty batch of such a schema.
RecordBatch without_rows(std::shared_ptr<const Schema> schema) {
  RecordBatch batch;
  batch.nodes.resize(schema->nodes().size());
  batch.buffers.resize(static_cast<std::size_t>(schema->n_buffers()));
  batch.schema = std::move(schema);
  return batch;
}

/// Calls a method that returns a pair of capsules.
std::pair<nb::object, nb::object> pair_from(nb::handle method, const char* name) {
  const nb::object pair = method();
  if (!nb::isinstance<nb::tuple>(pair) || nb::len(pair) != 2) {
    throw InvalidDataError(std::string(name) +
                           " must return a pair of capsules, as the Arrow PyCapsule interface specifies");
  }
  return {nb::object(pair[0]), nb::object(pair[1])};
}

/// Returns true if the object's attribute is_cpu is true. This is cheaper than a device array of host memory.
bool says_cpu(nb::handle producer) { return optional_attribute(producer.ptr(), names::is_cpu()).ptr() == Py_True; }

/// Imports the array of a method that returns a pair of capsules. Reads the schema before it moves the array out.
template <class CArray>
RecordBatch take_from(nb::handle method, const char* name) {
  const auto [schema, array] = pair_from(method, name);
  auto* const moved = content<CArray>(array, name);
  const array::TableSchema type = array::import_table_schema(*content<ArrowSchema>(schema, name));
  if constexpr (std::is_same_v<CArray, ArrowDeviceArray>) {
    return take_batch(type, moved);
  } else {
    ArrowDeviceArray on_cpu{};
    on_cpu.array = std::exchange(*moved, {});
    on_cpu.device_id = -1;
    on_cpu.device_type = ARROW_DEVICE_CPU;
    return take_batch(type, &on_cpu);
  }
}

/// Imports an array by the method that makes no copy: __arrow_c_array__ would copy data on a device to the host. Tries
/// __arrow_c_array__ first if `on_host`. Returns nullopt if the object has neither method.
std::optional<RecordBatch> take_array(nb::handle producer, bool on_host = false) {
  // Arrow can't tell a native context: such a batch of our own is taken as it is.
  PyRecordBatch* own = nullptr;
  if (nb::try_cast(producer, own) && own != nullptr && own->batch.native_context != nullptr) return own->batch;
  const nb::object on_device = optional_attribute(producer.ptr(), names::__arrow_c_device_array__());
  if (!on_device.is_valid() || on_host || says_cpu(producer)) {
    const nb::object host = optional_attribute(producer.ptr(), names::__arrow_c_array__());
    if (host.is_valid()) return take_from<ArrowArray>(host, "__arrow_c_array__");
  }
  if (!on_device.is_valid()) return std::nullopt;
  return take_from<ArrowDeviceArray>(on_device, "__arrow_c_device_array__");
}

[[noreturn]] void refuse(nb::handle producer) {
  throw UnsupportedTypeError(std::string("an object of type ") + excerpt(nb::type_name(producer.type()).c_str()) +
                             " has no Arrow data: it has none of __arrow_c_stream__, __arrow_c_device_stream__, "
                             "__arrow_c_array__, __arrow_c_device_array__");
}

[[noreturn]] void refuse_in(nb::handle object, const char* rule) {
  const bool stream = optional_attribute(object.ptr(), names::__arrow_c_stream__()).is_valid() ||
                      optional_attribute(object.ptr(), names::__arrow_c_device_stream__()).is_valid();
  throw UnsupportedTypeError(rule +
                             std::string(" record batches, which have __arrow_c_array__ or "
                                         "__arrow_c_device_array__; this one has an object of type ") +
                             excerpt(nb::type_name(object.type()).c_str()) +
                             (stream ? ", a table or stream: pass it by itself" : ", which has neither"));
}

/// Opens the object's __arrow_c_stream__ if `on_host`, else its __arrow_c_device_stream__. If it has none, opens the
/// other; if it has neither, returns null.
std::unique_ptr<BatchStream> stream_of(nb::handle producer, bool on_host) {
  for (const bool host : {on_host, !on_host}) {
    const nb::object method =
        optional_attribute(producer.ptr(), host ? names::__arrow_c_stream__() : names::__arrow_c_device_stream__());
    if (!method.is_valid()) continue;
    const nb::object capsule = method();
    if (host) return array::import_stream(content<ArrowArrayStream>(capsule, "__arrow_c_stream__"));
    return array::import_device_stream(content<ArrowDeviceArrayStream>(capsule, "__arrow_c_device_stream__"));
  }
  return nullptr;
}

/// Makes a stream of an object with an Arrow array method, or of a list or tuple of such objects.
std::unique_ptr<BatchStream> arrays_of(nb::handle producer, bool on_host) {
  std::vector<RecordBatch> batches;
  const auto add = [&](nb::handle object) {
    std::optional<RecordBatch> batch = take_array(object, on_host);
    if (!batch) return false;
    batches.push_back(*std::move(batch));
    return true;
  };
  if (nb::isinstance<nb::list>(producer) || nb::isinstance<nb::tuple>(producer)) {
    for (const nb::handle batch : nb::borrow<nb::sequence>(producer)) {
      if (!add(batch)) refuse_in(batch, "a list must hold");
    }
    if (batches.empty()) throw InvalidArgumentError("an empty list has no schema");
  } else {
    if (!add(producer)) refuse(producer);
  }
  auto schema = batches.front().schema;
  return array::make_stream(std::move(schema), std::move(batches));
}

/// The batches of a Python iterator, such as a generator. The first one is taken at once, for its schema.
class IteratorStream final : public BatchStream {
 public:
  /// Throws nb::python_error if the iterator raises, and InvalidArgumentError if it has no batch.
  explicit IteratorStream(nb::handle iterator) : iterator_(iterator.ptr()), first_(take()) {
    if (!first_) throw InvalidArgumentError("an iterator without batches has no schema");
    schema_ = first_->schema;
    type_ = first_->device.type;
  }
  const std::shared_ptr<const Schema>& schema() const override { return schema_; }
  device::DeviceType device_type() const override { return type_; }
  std::optional<RecordBatch> next() override {
    if (first_) return std::exchange(first_, std::nullopt);
    const GilAcquire gil("reading a Python iterator");
    try {
      return take();
    } catch (const nb::python_error& error) {
      throw RemoteError("the source's iterator raised " + describe(error));
    }
  }

 private:
  std::optional<RecordBatch> take() const {
    const nb::object item = nb::steal(PyIter_Next(iterator_.get()));
    if (!item.is_valid()) {
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
      return std::nullopt;
    }
    std::optional<RecordBatch> batch = take_array(item);
    if (!batch) refuse_in(item, "an iterator must give");
    return batch;
  }

  PyOwner iterator_;
  std::optional<RecordBatch> first_;
  std::shared_ptr<const Schema> schema_;
  device::DeviceType type_{};
};

/// Opens a stream on the data's own device, so that no copy is made. Tries the producer's methods for the host first if
/// `on_host`.
std::unique_ptr<BatchStream> open(nb::handle producer, bool on_host = false) {
  if (auto stream = stream_of(producer, on_host)) return stream;
  if (PyIter_Check(producer.ptr()) != 0) return std::make_unique<IteratorStream>(producer);
  return arrays_of(producer, on_host);
}

/// Opens a stream of memory that the host can read or a driver here can copy.
std::unique_ptr<BatchStream> open_in_reach(nb::handle producer) {
  auto stream = open(producer);
  const device::DeviceType type = stream->device_type();
  if (type == device::DeviceType::kCpu) return stream;
  drivers();  // started here, because the server's threads read the stream without the GIL
  if (device::host_reaches(type)) return stream;
  try {
    drivers().for_type(type);
    return stream;
  } catch (const UnsupportedError&) {
    // The producer may copy the data to the host, unless its stream could be taken only once.
    if (PyIter_Check(producer.ptr()) != 0) throw;
    try {
      stream = open(producer, true);
    } catch (const std::exception&) {
    }
    if (stream->device_type() != device::DeviceType::kCpu) throw;
    return stream;
  }
}

}  // namespace

std::unique_ptr<BatchStream> open_producer(nb::handle producer) {
  return std::make_unique<ProducerStream>(open_in_reach(producer));
}

std::unique_ptr<BatchStream> open_live(nb::handle producer) {
  return derived_stream(open_producer(producer), [](BatchStream& stream) {
    mark_source_thread();
    return for_consumer([&] { return stream.next(); });
  });
}

std::unique_ptr<BatchStream> open_stream(nb::handle producer) {
  return std::make_unique<ProducerStream>(open(producer));
}

std::optional<RecordBatch> open_array(nb::handle producer) {
  std::optional<RecordBatch> batch = take_array(producer);
  if (batch) batch = kept_anywhere(*std::move(batch));
  return batch;
}

std::optional<RecordBatch> open_only_batch(nb::handle producer) {
  auto opened = stream_of(producer, false);
  if (opened == nullptr) return std::nullopt;
  const auto stream = std::make_unique<ProducerStream>(std::move(opened));
  std::vector<RecordBatch> batches;
  {
    const GilRelease release;
    while (auto batch = stream->next()) {
      if (batch->num_rows > 0 || batches.empty()) batches.push_back(std::move(*batch));
    }
  }
  if (batches.empty() && is_numbers(*stream->schema())) batches.push_back(without_rows(stream->schema()));
  if (batches.size() > 1 && batches.front().num_rows == 0) batches.erase(batches.begin());
  if (batches.size() != 1) {
    throw ExportError("the data is in " + std::to_string(batches.size()) +
                      " chunks, not in one; combine the chunks first");
  }
  return std::move(batches.front());
}

RecordBatch open_batch(nb::handle producer) {
  std::optional<RecordBatch> batch = open_array(producer);
  if (!batch) batch = open_only_batch(producer);
  if (!batch) refuse(producer);
  return *std::move(batch);
}

std::function<std::unique_ptr<BatchStream>()> factory_of(nb::handle callable) {
  auto owner = std::make_shared<PyOwner>(callable.ptr());
  return [owner = std::move(owner)]() -> std::unique_ptr<BatchStream> {
    mark_source_thread();
    const GilAcquire gil("calling a Python source");
    try {
      const nb::object producer = nb::handle(owner->get())();
      return for_consumer([&] { return open_live(producer); });
    } catch (const nb::python_error& error) {
      throw RemoteError("the source's callable raised " + describe(error));
    }
  };
}

std::unique_ptr<array::BatchStream> interruptible_stream(std::unique_ptr<array::BatchStream> stream,
                                                         transport::InterruptHook hook) {
  return derived_stream(std::move(stream), [hook = std::move(hook)](BatchStream& of) {
    if (hook()) throw InterruptedError("reading the table was interrupted");
    return of.next();
  });
}

}  // namespace crossdock::python
