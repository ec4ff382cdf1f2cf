#include "crossdock/array/stream.h"

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "array/column.h"
#include "array/internal/c_status.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

// The two C streams differ only in the array that they fill; all code here is written once for both.
struct Host {
  using Stream = ArrowArrayStream;
  using Array = ArrowArray;
  static void widen(Array&& from, ArrowDeviceArray* to) noexcept {
    std::memset(to, 0, sizeof *to);
    to->array = from;
    to->device_id = -1;
    to->device_type = ARROW_DEVICE_CPU;
    from.release = nullptr;
  }
  static device::DeviceType device_type(const Stream&) noexcept { return device::DeviceType::kCpu; }
};

struct AnyDevice {
  using Stream = ArrowDeviceArrayStream;
  using Array = ArrowDeviceArray;
  static void widen(Array&& from, ArrowDeviceArray* to) noexcept {
    *to = from;
    from.array.release = nullptr;
  }
  static device::DeviceType device_type(const Stream& stream) noexcept {
    return static_cast<device::DeviceType>(stream.device_type);
  }
};

std::string in_stream_of(const device::Device& device, device::DeviceType type) {
  return device::to_string(device) + " in a stream of device type " + std::to_string(static_cast<std::int32_t>(type));
}

// The target of `private_data` of an exported stream. Its callbacks are called from C, so no exception may leave them.
template <typename Form>
struct ExportedStream {
  std::unique_ptr<BatchStream> stream;
  std::string last_error;
  std::exception_ptr failure;

  static ExportedStream* of(typename Form::Stream* c) noexcept { return static_cast<ExportedStream*>(c->private_data); }

  template <typename Body>
  int guarded(Body&& body) noexcept {
    try {
      last_error.clear();
      failure = nullptr;
      body();
      return 0;
    } catch (const Error& error) {
      failure = std::current_exception();
      keep(error_name(error.code()), ": ", error.what());
      return status_of(error);
    } catch (const std::bad_alloc&) {
      keep("out of memory");
      return ENOMEM;
    } catch (const std::exception& error) {
      keep(error.what());
      return EIO;
    } catch (...) {
      keep("the source threw an object that isn't a std::exception");
      return EIO;
    }
  }

  /// Stores the error text; leaves it empty if there is no memory for it.
  template <typename... Parts>
  void keep(const Parts&... parts) noexcept {
    try {
      (last_error.append(parts), ...);
    } catch (const std::bad_alloc&) {
      last_error.clear();
    }
  }

  static int get_schema(typename Form::Stream* c, ArrowSchema* out) noexcept {
    return of(c)->guarded([&] { export_schema(*of(c)->stream->schema(), out); });
  }

  static int get_next(typename Form::Stream* c, typename Form::Array* out) noexcept {
    std::memset(out, 0, sizeof *out);
    return of(c)->guarded([&] {
      std::optional<RecordBatch> batch = of(c)->stream->next();
      if (!batch) return;
      check_place(*batch, of(c)->stream->device_type());
      ArrowDeviceArray wide;
      export_batch(*std::move(batch), &wide);
      if constexpr (std::is_same_v<Form, Host>) {
        *out = wide.array;
      } else {
        *out = wide;
      }
    });
  }

  static void check_place(const RecordBatch& batch, device::DeviceType type) {
    if constexpr (std::is_same_v<Form, Host>) {
      if (batch.device.type == device::DeviceType::kCpu && batch.ready()) return;
      throw UnsupportedTypeError(
          "a batch is in memory of " + device::to_string(batch.device) +
          (batch.ready() ? "" : ", with work that may be pending") +
          ", which a CPU stream can't carry: import it as a device stream, or copy it to the host first");
    } else if (batch.device.type != type) {
      throw InvalidDataError("a batch is on " + in_stream_of(batch.device, type));
    }
  }

  static const char* get_last_error(typename Form::Stream* c) noexcept {
    return of(c)->last_error.empty() ? nullptr : of(c)->last_error.c_str();
  }

  static void release(typename Form::Stream* c) noexcept {
    delete of(c);
    c->private_data = nullptr;
    c->release = nullptr;
  }

  /// Returns the exception of the last call of a stream that this library exported, for which the C interface has no
  /// place. Null for other producers' streams.
  static std::exception_ptr failure_of(const typename Form::Stream& stream) noexcept {
    return stream.release == &release ? static_cast<const ExportedStream*>(stream.private_data)->failure : nullptr;
  }
};

/// Releases a C structure that was not moved out.
struct Release {
  template <typename C>
  void operator()(C* c) const {
    if (c->release != nullptr) c->release(c);
  }
};

template <typename Form>
class ImportedStream final : public BatchStream {
 public:
  /// Moves the stream, as the C stream interface defines it, before the first call of the producer. If a callback or
  /// another thread accesses the source stream meanwhile, it finds it already taken.
  explicit ImportedStream(typename Form::Stream* from) : stream_(*from) {
    if (stream_.get_schema == nullptr || stream_.get_next == nullptr) {
      stream_.release = nullptr;  // the caller still owns it
      throw InvalidDataError("an Arrow stream without get_schema or get_next can't be read");
    }
    from->release = nullptr;
    try {
      read_schema();
    } catch (...) {
      *from = stream_;
      throw;
    }
  }

  ~ImportedStream() override {
    if (stream_.release != nullptr) stream_.release(&stream_);
  }

  const std::shared_ptr<const Schema>& schema() const override { return schema_.schema; }
  device::DeviceType device_type() const override { return Form::device_type(stream_); }

  std::optional<RecordBatch> next() override {
    if (failure_) std::rethrow_exception(failure_);
    if (over_) return std::nullopt;
    try {
      return take();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

 private:
  void read_schema() {
    ArrowSchema c_schema{};
    if (const int status = stream_.get_schema(&stream_, &c_schema)) fail(&stream_, status, "its schema");
    const std::unique_ptr<ArrowSchema, Release> released(&c_schema);
    if (c_schema.release == nullptr) throw InvalidDataError("the producer of an Arrow stream gave a released schema");
    schema_ = import_table_schema(c_schema);
  }

  std::optional<RecordBatch> take() {
    typename Form::Array array{};
    if (const int status = stream_.get_next(&stream_, &array)) fail(&stream_, status, "a batch");
    ArrowDeviceArray wide;
    Form::widen(std::move(array), &wide);
    if (wide.array.release == nullptr) {
      over_ = true;
      return std::nullopt;
    }
    const std::unique_ptr<ArrowArray, Release> released(&wide.array);
    if (const auto type = static_cast<device::DeviceType>(wide.device_type); type != device_type()) {
      throw InvalidDataError("the producer of an Arrow stream gave an array on " +
                             in_stream_of({.type = type, .id = wide.device_id}, device_type()));
    }
    return import_table(schema_, &wide);
  }

  [[noreturn]] static void fail(typename Form::Stream* stream, int status, const char* what) {
    if (const std::exception_ptr ours = ExportedStream<Form>::failure_of(*stream)) std::rethrow_exception(ours);
    const char* const text = stream->get_last_error != nullptr ? stream->get_last_error(stream) : nullptr;
    throw_status(status, std::string("the producer of an Arrow stream failed to give ") + what + ": " +
                             shortened(text != nullptr && *text != '\0' ? text : std::strerror(status)));
  }

  typename Form::Stream stream_{};
  TableSchema schema_;
  bool over_ = false;
  std::exception_ptr failure_;
};

template <typename Form>
std::unique_ptr<BatchStream> import_as(typename Form::Stream* stream) {
  if (stream == nullptr || stream->release == nullptr) {
    throw InvalidArgumentError("the Arrow stream was released already; a stream can be consumed only once");
  }
  return std::make_unique<ImportedStream<Form>>(stream);
}

class MadeStream final : public BatchStream {
 public:
  MadeStream(std::shared_ptr<const Schema> schema, std::vector<RecordBatch> batches) noexcept
      : schema_(std::move(schema)),
        batches_(std::move(batches)),
        device_type_(batches_.empty() ? device::DeviceType::kCpu : batches_.front().device.type) {}
  const std::shared_ptr<const Schema>& schema() const override { return schema_; }
  device::DeviceType device_type() const override { return device_type_; }
  std::optional<RecordBatch> next() override {
    if (next_ == batches_.size()) return std::nullopt;
    return std::move(batches_[next_++]);  // releases each batch as soon as it is taken
  }

 private:
  std::shared_ptr<const Schema> schema_;
  std::vector<RecordBatch> batches_;
  device::DeviceType device_type_;
  std::size_t next_ = 0;
};

template <typename Form>
void export_as(std::unique_ptr<BatchStream> stream, typename Form::Stream* out) {
  using Exported = ExportedStream<Form>;
  out->release = nullptr;
  out->private_data = new Exported{std::move(stream), {}, {}};
  out->get_schema = &Exported::get_schema;
  out->get_next = &Exported::get_next;
  out->get_last_error = &Exported::get_last_error;
  out->release = &Exported::release;
}

}  // namespace

std::unique_ptr<BatchStream> make_stream(std::shared_ptr<const Schema> schema, std::vector<RecordBatch> batches) {
  if (!schema) throw InvalidArgumentError("a stream of batches needs a schema; it was null");
  for (const RecordBatch& batch : batches) {
    if (batch.schema != schema && (!batch.schema || *batch.schema != *schema)) {
      throw InvalidDataError(
          "a stream of batches was given a batch with another schema; the schema of the stream is\n" +
          schema->to_string());
    }
    if (batch.device.type != batches.front().device.type) {
      throw InvalidDataError("a stream of batches was given a batch on " + device::to_string(batch.device) +
                             " after one on " + device::to_string(batches.front().device) +
                             ": copy them to one device first");
    }
  }
  return std::make_unique<MadeStream>(std::move(schema), std::move(batches));
}

std::unique_ptr<BatchStream> import_stream(ArrowArrayStream* stream) { return import_as<Host>(stream); }

std::unique_ptr<BatchStream> import_device_stream(ArrowDeviceArrayStream* stream) {
  return import_as<AnyDevice>(stream);
}

void export_stream(std::unique_ptr<BatchStream> stream, ArrowArrayStream* out) {
  export_as<Host>(std::move(stream), out);
}

void export_device_stream(std::unique_ptr<BatchStream> stream, ArrowDeviceArrayStream* out) {
  out->device_type = static_cast<ArrowDeviceType>(stream->device_type());
  export_as<AnyDevice>(std::move(stream), out);
}

BatchIterator BatchStream::begin() { return BatchIterator(*this); }

BatchIterator::BatchIterator(BatchStream& stream) : stream_(&stream), batch_(stream.next()) {}
BatchIterator::BatchIterator(BatchIterator&&) noexcept = default;
BatchIterator& BatchIterator::operator=(BatchIterator&&) noexcept = default;
BatchIterator::~BatchIterator() = default;

BatchIterator& BatchIterator::operator++() {
  batch_.reset();  // its memory may be needed for the next one
  batch_ = stream_->next();
  return *this;
}

}  // namespace crossdock::array
