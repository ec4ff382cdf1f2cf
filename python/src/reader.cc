#include "reader.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "batch.h"
#include "capsule.h"
#include "core/amounts.h"
#include "deferred.h"
#include "derived_stream.h"
#include "gil.h"
#include "producer.h"
#include "tensor/transfer.h"
#include "text.h"
#include "types.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

/// Tells `trace`, if there is one, of a batch, or of the end.
void note_read(StreamTrace* trace, const std::optional<array::RecordBatch>& batch) noexcept {
  if (trace == nullptr) return;
  if (batch) {
    trace->note(*batch);
  } else {
    trace->end();
  }
}

/// Tells `trace`, if there is one, of an error, unless the stream can be read further after it.
void note_failure(StreamTrace* trace, const Error& error) {
  if (trace == nullptr || error.code() == ErrorCode::kInterrupted || error.code() == ErrorCode::kTimeout) return;
  trace->end(std::string(error_name(error.code())) + ": " + error.what());
}

/// Reads the next batch, and tells `trace` what came of it.
std::optional<array::RecordBatch> read_traced(array::BatchStream& stream, StreamTrace* trace) {
  try {
    std::optional<array::RecordBatch> batch = stream.next();
    note_read(trace, batch);
    return batch;
  } catch (const Error& error) {
    note_failure(trace, error);
    throw;
  }
}

constexpr const char* kClosedMeanwhile = "this RecordBatchReader was closed while next() waited";

}  // namespace

std::unique_ptr<array::BatchStream> on_host(std::unique_ptr<array::BatchStream> stream) {
  if (stream->device_type() == device::DeviceType::kCpu) return stream;
  drivers();  // started here, so that the consumer's thread needn't take the GIL for it
  const auto next = [](array::BatchStream& of) {
    std::optional<array::RecordBatch> batch = of.next();
    if (batch) batch = on_host(*std::move(batch));
    return batch;
  };
  return std::make_unique<DerivedStream<decltype(next)>>(std::move(stream), device::DeviceType::kCpu, next);
}

/// Holds `in_use_` while one thread uses `stream_`, without the GIL. The destructor closes the stream if close() was
/// called meanwhile.
class PyReader::Use {
 public:
  explicit Use(PyReader& of) : of_(of) {
    of.made_in_.check("this RecordBatchReader");  // a forked child may lack the thread that holds `in_use_`
    if (of.user_.load() == std::this_thread::get_id()) {
      throw StreamBusyError("a signal handler can't read from the RecordBatchReader whose next() it interrupted");
    }
    lock_ = std::unique_lock(of.in_use_, std::try_to_lock);
    of.require_open();
    if (!lock_.owns_lock()) throw StreamBusyError("another thread is reading from this RecordBatchReader");
    of.user_.store(std::this_thread::get_id());
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    of_.user_.store({});
    if (of_.interrupt_->cancelled()) of_.close_in_use();
  }

 private:
  PyReader& of_;
  std::unique_lock<std::mutex> lock_;
};

PyReader::PyReader(std::unique_ptr<array::BatchStream> stream)
    : schema_(stream->schema()),
      device_type_(stream->device_type()),
      interrupt_(std::make_shared<Interrupt>()),
      stream_(std::move(stream)) {}

PyReader::PyReader(std::unique_ptr<session::Reader> reader)
    : PyReader(std::unique_ptr<array::BatchStream>(std::move(reader))) {
  reader_ = static_cast<session::Reader*>(stream_.get());
  location_ = reader_->location();
  passed_over_ = reader_->passed_over();
  version_ = reader_->version();
  reader_->set_interrupt_hook([interrupt = interrupt_] { return interrupt->check(); });
}

PyReader::~PyReader() {
  if (stream_ == nullptr) return;
  if (made_in_.in_child() && user_.load() != std::thread::id()) {
    // Intentional leak: a thread of the parent was using the stream at the fork, so its copy here may be inconsistent
    // and can't be destroyed.
    [[maybe_unused]] const auto* left = stream_.release();
    return;
  }
  const SavedError saved;  // the producer's release callback may run Python code
  const GilRelease release;
  stream_.reset();
}

void PyReader::require_open() const {
  switch (state_.load()) {
    case State::kClosed: throw ClosedError("this RecordBatchReader was closed; get() the table again");
    case State::kHandedOver:
      throw ConsumedError("this RecordBatchReader was already exported as a C stream; get() the table again");
    case State::kOpen:
    case State::kEnded: break;
  }
  if (interrupt_->cancelled()) throw ClosedError("this RecordBatchReader is being closed; get() the table again");
}

std::optional<array::RecordBatch> PyReader::next() {
  drain_deferred();
  require_open();
  if (state_.load() == State::kEnded) return std::nullopt;
  try {
    const GilRelease release;
    const Use use(*this);
    std::optional<array::RecordBatch> batch = read_traced(*stream_, trace_.get());
    // A producer in C can't be interrupted by close(), so this is checked after it has returned.
    if (interrupt_->cancelled()) throw ClosedError(kClosedMeanwhile);
    note_taken(batch);
    return batch;
  } catch (const InterruptedError&) {
    if (interrupt_->raise_here()) throw nb::python_error();
    if (interrupt_->cancelled()) throw ClosedError(kClosedMeanwhile);
    throw;
  }
}

void PyReader::note_taken(const std::optional<array::RecordBatch>& batch) noexcept {
  if (reader_ != nullptr) bytes_copied_->store(reader_->bytes_copied(), std::memory_order_relaxed);
  if (batch) {
    begun_.store(true);
  } else {
    state_.store(State::kEnded);
  }
}

bool PyReader::try_next(std::optional<array::RecordBatch>* batch) {
  drain_deferred();
  require_open();
  batch->reset();
  if (state_.load() == State::kEnded) return true;
  const GilRelease release;
  const Use use(*this);
  bool there = true;
  try {
    if (reader_ != nullptr) {
      session::Polled found = reader_->try_next();
      there = found.arrived();
      *batch = std::move(found.batch);
    } else {
      *batch = stream_->next();
    }
  } catch (const Error& error) {
    note_failure(trace_.get(), error);
    throw;
  }
  if (there) {
    note_read(trace_.get(), *batch);
    note_taken(*batch);
  }
  return there;
}

int PyReader::prepare_sleep() {
  require_open();
  const GilRelease release;
  const Use use(*this);
  return reader_ != nullptr && reader_->prepare_sleep() ? reader_->descriptor() : -1;
}

void PyReader::awake() {
  if (made_in_.in_child() || user_.load() == std::this_thread::get_id()) return;
  const GilRelease release;
  const std::unique_lock lock(in_use_, std::try_to_lock);
  if (lock.owns_lock() && reader_ != nullptr && state_.load() == State::kOpen) reader_->awake();
}

std::unique_ptr<array::BatchStream> PyReader::hand_over() {
  drain_deferred();
  require_open();
  const GilRelease release;
  const Use use(*this);
  // The consumer would take the remaining batches for the whole table.
  if (begun_.load() || state_.load() == State::kEnded) {
    throw ConsumedError(
        "batches were already read from this RecordBatchReader by iteration, so it can't export the whole stream: "
        "get() the table again, or iterate over the remaining batches");
  }
  // The consumer may call the stream with or without the GIL.
  const auto read = [interrupt = interrupt_, counted = bytes_copied_, trace = trace_,
                     reader = reader_](array::BatchStream& of) {
    try {
      const GilReleaseIfHeld without_gil;  // a Python source in this process may need the GIL to make the batch
      std::optional<array::RecordBatch> batch = read_traced(of, trace.get());
      if (reader != nullptr) counted->store(reader->bytes_copied(), std::memory_order_relaxed);
      return batch;
    } catch (const InterruptedError&) {
      interrupt->raise_later();
      throw;
    }
  };
  auto stream = derived_stream(std::move(stream_), read);
  reader_ = nullptr;
  trace_.reset();
  state_.store(State::kHandedOver);
  return stream;
}

void PyReader::close() {
  drain_deferred();
  if (made_in_.in_child() || state_.load() == State::kHandedOver) return;
  interrupt_->cancel();
  if (user_.load() == std::this_thread::get_id()) return;  // called by a signal handler in next(), which then closes
  const GilRelease release;
  const std::scoped_lock lock(in_use_);
  close_in_use();
}

void PyReader::close_in_use() {
  if (stream_ == nullptr) return;
  if (reader_ != nullptr) {
    reader_->close();
  } else {
    stream_.reset();
  }
  trace_.reset();
  state_.store(State::kClosed);
}

const char* PyReader::state() const noexcept {
  switch (state_.load()) {
    case State::kOpen: return "open";
    case State::kEnded: return "at its end";
    case State::kHandedOver: return "exported";
    case State::kClosed: return "closed";
  }
  return "";
}

void bind_reader(nb::module_& module) {
  nb::class_<PyReader>(
      module, "RecordBatchReader",
      "A stream of batches. Iterate over it, or pass it to any consumer of an Arrow stream, which then gets the whole "
      "stream. The batches outlive the reader, its client and the server. Only one thread at a time may read.")
      .def(
          "__init__",
          [](PyReader* self, nb::handle source) {
            drain_deferred();
            new (self) PyReader(open_stream(source));
          },
          "source"_a,
          "Reads batches, without a copy. Reads a stream batch by batch. The batches may be on any device.\n\n"
          "source: an object with an Arrow method, or a list of batches.\n\n"
          "Raises `UnsupportedTypeError` for an object without Arrow data, `InvalidArgumentError` for an empty list, "
          "and the errors of the source.")
      .def_prop_ro(
          "schema", [](const PyReader& self) { return PySchema{self.schema()}; }, "The schema of all batches.")
      .def_prop_ro(
          "location",
          [](const PyReader& self) {
            return self.location().empty() ? nb::none() : nb::object(displayed(self.location()));
          },
          "The URI that the stream is read from; None for another library's stream.")
      .def_prop_ro(
          "passed_over",
          [](const PyReader& self) {
            nb::list shown;
            for (const session::LocationTried& one : self.passed_over()) {
              shown.append(nb::make_tuple(displayed(one.location), displayed(one.why)));
            }
            return shown;
          },
          "For a client of a Flight server: pairs of a location that the server named and that wasn't used, and why.")
      .def_prop_ro("bytes_copied", &PyReader::bytes_copied,
                   "The bytes that were copied so far to bring the batches of `Client.get(device=)` to their device.")
      .def_prop_ro(
          "version",
          [](const PyReader& self) { return self.version() < 0 ? nb::none() : nb::object(nb::int_(self.version())); },
          "The version of the table, as CatalogEntry.version; None for a live stream, or if the server doesn't say.")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__",
           [](PyReader& self) {
             std::optional<array::RecordBatch> batch = self.next();
             if (!batch) throw nb::stop_iteration();
             return PyRecordBatch{std::move(*batch)};
           })
      .def("__arrow_c_schema__", [](const PyReader& self) { return schema_capsule(*self.schema()); })
      .def(
          "__arrow_c_stream__",
          [](PyReader& self, nb::handle requested) {
            const Request request = request_of(requested, self.schema());
            return stream_capsule(on_host(self.hand_over()), request);
          },
          "requested_schema"_a.none() = nb::none(),
          "Exports the whole stream, once. Afterwards this object has only the schema. Raises ConsumedError if batches "
          "were already read by iteration. Copies batches on a device to the host, each when it is read.\n\n"
          "requested_schema: as for RecordBatch.__arrow_c_array__. Each batch is converted when it is read. A request "
          "that is refused doesn't consume the reader.")
      .def(
          "__arrow_c_device_stream__",
          [](PyReader& self, nb::handle requested, const nb::kwargs& keywords) {
            refuse_keywords("RecordBatchReader.__arrow_c_device_stream__", keywords);
            const Request request = request_of(requested, self.schema(), self.device_type());
            return device_stream_capsule(self.hand_over(), request);
          },
          "requested_schema"_a.none() = nb::none(), "keywords"_a,
          "Exports the stream as __arrow_c_stream__ does, but each batch has its device and its event. Raises "
          "UnsupportedError if data of a device would have to be converted.")
      .def(
          "_try_next",
          [](PyReader& self) {
            std::optional<array::RecordBatch> batch;
            const bool there = self.try_next(&batch);
            return std::make_pair(
                there, batch ? std::optional<PyRecordBatch>(PyRecordBatch{std::move(*batch)}) : std::nullopt);
          },
          "Reads without waiting. Returns (True, batch), (True, None) at the end, or (False, None) if no batch has "
          "arrived.")
      .def(
          "_trace",
          [](PyReader& self, nb::handle on_end) { self.set_trace(std::make_shared<StreamTrace>(on_end.ptr())); },
          "on_end"_a,
          "Calls on_end(batches, bytes, time, error) once the stream is over: time in ns since 1970, error a str or "
          "None. Call it before the first batch is read.")
      .def("_prepare_sleep", &PyReader::prepare_sleep,
           "Returns the descriptor that becomes readable when data arrives, or -1 if data has arrived meanwhile: then "
           "don't wait.")
      .def("_awake", &PyReader::awake, "Must be called after the wait for that descriptor.")
      .def("close", &PyReader::close,
           "Ends the stream. A next() that waits in another thread raises ClosedError. Batches and an exported stream "
           "stay valid.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__", [](PyReader& self, const nb::args&) { self.close(); }, "exception"_a)
      .def("_repr_html_", [](nb::handle self) { return html_of(self, "of_reader"); })
      .def("__repr__", [](const PyReader& self) {
        return "<crossdock.RecordBatchReader: " + counted(self.schema()->fields().size(), "column") + ", " +
               self.state() + ">";
      });
  add_methods_of_columns(module.attr("RecordBatchReader"));
}

}  // namespace crossdock::python
