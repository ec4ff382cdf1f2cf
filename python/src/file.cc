#include "module.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "capsule.h"
#include "core/amounts.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/session/file.h"
#include "deferred.h"
#include "gil.h"
#include "interrupt.h"
#include "options.h"
#include "producer.h"
#include "reader.h"
#include "types.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

std::string path_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

/// A file reader that Python threads and C consumers share. Decoding doesn't need the GIL, and the mutex is only waited
/// for without the GIL. Only one taker, the first that calls next(), reads the batches in order: iteration or one of
/// the streams. Other takers get an error, because they would take the remaining batches for the whole file.
class SharedReader {
 public:
  static constexpr std::uint64_t kIteration = 1;

  explicit SharedReader(std::unique_ptr<ipc::FileReader> reader) : reader_(std::move(reader)) {}
  const ipc::FileReader& about() const noexcept { return *reader_; }
  /// Returns a number for a new stream, as `taker` of next(). Throws ConsumedError if batches were already taken.
  std::uint64_t new_stream() {
    const std::lock_guard lock(mutex_);
    if (taker_ != 0) throw_consumed();
    return ++streams_;
  }
  /// Returns the next batch. Throws ConsumedError if another `taker` has taken batches.
  std::optional<array::RecordBatch> next(std::uint64_t taker) {
    const std::lock_guard lock(mutex_);
    if (taker_ == 0) taker_ = taker;
    if (taker_ != taker) throw_consumed();
    return reader_->next();
  }
  array::RecordBatch batch(std::int64_t index) {
    const std::lock_guard lock(mutex_);
    return reader_->batch(index);
  }

 private:
  [[noreturn]] void throw_consumed() const {
    throw ConsumedError(std::string("batches were already read from this FileReader by ") +
                        (taker_ == kIteration ? "iteration" : "a consumer of its Arrow stream") +
                        ", so another consumer would get only the remaining ones: open() the file again");
  }

  std::mutex mutex_;
  std::unique_ptr<ipc::FileReader> reader_;
  std::uint64_t taker_ = 0;  // 0: no batch was taken yet
  std::uint64_t streams_ = kIteration;
};

/// A stream of the whole file for a C consumer.
class Whole final : public array::BatchStream {
 public:
  explicit Whole(std::shared_ptr<SharedReader> reader) : reader_(std::move(reader)), number_(reader_->new_stream()) {}
  const std::shared_ptr<const array::Schema>& schema() const override { return reader_->about().schema(); }
  std::optional<array::RecordBatch> next() override {
    const GilReleaseIfHeld release;
    return reader_->next(number_);
  }

 private:
  std::shared_ptr<SharedReader> reader_;
  std::uint64_t number_;
};

class PyFileReader {
 public:
  PyFileReader(const nb::bytes& path, const std::string& validation, const ipc::Limits& limits) : path_(path_of(path)) {
    session::OpenOptions options;
    options.limits = limits;
    options.validation = validation_of(validation);
    const GilRelease release;
    reader_ = std::make_shared<SharedReader>(session::open_file(path_, options));
  }

  const ipc::FileReader& about() const { return open().about(); }
  std::optional<array::RecordBatch> next() {
    drain_deferred();
    const std::shared_ptr<SharedReader> reader = held();
    const GilRelease release;
    return reader->next(SharedReader::kIteration);
  }
  array::RecordBatch batch(std::int64_t index) {
    drain_deferred();
    const std::shared_ptr<SharedReader> reader = held();
    if (index < 0) index += reader->about().num_batches();
    const GilRelease release;
    return reader->batch(index);
  }
  /// Implements indexing as for Python's sequences: throws IndexError, which ends a loop over the batches.
  array::RecordBatch at(std::int64_t index) {
    const std::int64_t n = about().num_batches();
    if (index < -n || index >= n) {
      throw nb::index_error(
          ("there is no batch " + std::to_string(index) + ": the file has " + std::to_string(n)).c_str());
    }
    return batch(index);
  }
  std::unique_ptr<array::BatchStream> whole() const {
    std::shared_ptr<SharedReader> reader = held();
    const GilRelease release;  // another thread may hold the reader's mutex while it decodes a batch
    return std::make_unique<Whole>(std::move(reader));
  }
  void close() noexcept { reader_.reset(); }
  bool closed() const noexcept { return reader_ == nullptr; }
  const std::string& path() const noexcept { return path_; }

 private:
  std::shared_ptr<SharedReader> held() const {
    if (reader_ == nullptr) throw ClosedError("this FileReader was closed; open the file again");
    return reader_;
  }
  SharedReader& open() const { return *held(); }

  std::string path_;
  std::shared_ptr<SharedReader> reader_;  // guarded by the GIL
};

void write_file(nb::handle source, const nb::bytes& path, const std::string& form,
                const std::optional<std::string>& compression, std::optional<int> level) {
  session::WriteOptions options;
  options.level = level;
  if (form == "stream") {
    options.form = ipc::ContainerForm::kStream;
  } else if (form != "file") {
    throw InvalidArgumentError("form must be \"file\" or \"stream\", not \"" + excerpt(form) + "\"");
  }
  if (compression == "lz4") {
    options.codec = ipc::Codec::kLz4Frame;
  } else if (compression == "zstd") {
    options.codec = ipc::Codec::kZstd;
  } else if (compression) {
    throw InvalidArgumentError("compression must be \"lz4\", \"zstd\" or None, not \"" + excerpt(*compression) + "\"");
  }
  auto stream = on_host(open_producer(source));
  const std::string name = path_of(path);
  blocking([&](const transport::InterruptHook& hook) {
    const auto interruptible = interruptible_stream(std::move(stream), hook);
    session::write_file(*interruptible, name, options, hook);
  });
}

}  // namespace

void bind_file(nb::module_& module) {
  nb::class_<PyFileReader>(module, "FileReader",
                           "A reader of an Arrow IPC file or stream file. Made by open(). Iterate over it, index it, "
                           "or pass it to any consumer of an Arrow stream. Batches that aren't compressed are views of "
                           "the mapped file. Batches outlive the reader. Thread-safe.")
      .def(nb::init<const nb::bytes&, const std::string&, const ipc::Limits&>(), "path"_a, "validation"_a, "limits"_a)
      .def_prop_ro(
          "schema", [](const PyFileReader& self) { return PySchema{self.about().schema()}; },
          "The schema of all batches.")
      .def_prop_ro(
          "form", [](const PyFileReader& self) { return self.about().has_footer() ? "file" : "stream"; },
          "\"file\" (it has a footer) or \"stream\".")
      .def_prop_ro(
          "num_batches", [](const PyFileReader& self) { return self.about().num_batches(); }, "The number of batches.")
      .def_prop_ro(
          "num_rows", [](const PyFileReader& self) { return self.about().num_rows(); }, "The rows of all batches.")
      .def_prop_ro(
          "metadata", [](const PyFileReader& self) { return dict_of(self.about().custom_metadata()); },
          "The custom metadata of the footer; for a stream file, that of the schema message. The schema has its own "
          "metadata.")
      .def_prop_ro("closed", &PyFileReader::closed, "True after close().")
      .def(
          "batch", [](PyFileReader& self, std::int64_t index) { return PyRecordBatch{self.batch(index)}; }, "index"_a,
          "Returns batch `index`, counted from 0, or from the end if it is negative. Doesn't change the position of "
          "the iteration. Raises UnsupportedError for a stream file, which can only be read in order.")
      .def(
          "__getitem__", [](PyFileReader& self, std::int64_t index) { return PyRecordBatch{self.at(index)}; },
          "index"_a)
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__",
           [](PyFileReader& self) {
             std::optional<array::RecordBatch> batch = self.next();
             if (!batch) throw nb::stop_iteration();
             return PyRecordBatch{std::move(*batch)};
           })
      .def("__arrow_c_schema__", [](const PyFileReader& self) { return schema_capsule(*self.about().schema()); })
      .def(
          "__arrow_c_stream__",
          [](const PyFileReader& self, nb::handle requested) {
            const Request request = request_of(requested, self.about().schema());
            return stream_capsule(self.whole(), request);
          },
          "requested_schema"_a.none() = nb::none(),
          "Exports the whole file, for one consumer. If batches were read by iteration or by another consumer, it and "
          "the streams that were exported before raise ConsumedError; batch() doesn't count.\n\n"
          "requested_schema: as for RecordBatch.__arrow_c_array__. Each batch is converted when it is read.")
      .def(
          "__arrow_c_device_stream__",
          [](const PyFileReader& self, nb::handle requested, const nb::kwargs& keywords) {
            refuse_keywords("FileReader.__arrow_c_device_stream__", keywords);
            const Request request = request_of(requested, self.about().schema());
            return device_stream_capsule(self.whole(), request);
          },
          "requested_schema"_a.none() = nb::none(), "keywords"_a,
          "Exports the file as __arrow_c_stream__ does, with the device of the memory.")
      .def("close", &PyFileReader::close,
           "Ends reading. Batches and exported streams stay valid. May be called twice; raises nothing.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__", [](PyFileReader& self, const nb::args&) { self.close(); }, "exception"_a)
      .def("_repr_html_", [](nb::handle self) { return html_of(self, "of_file"); })
      .def("__repr__", [](const PyFileReader& self) {
        const std::string what = self.closed() ? "closed"
                                               : counted(self.about().num_batches(), "batch", "batches") + ", " +
                                                     counted(self.about().num_rows(), "row");
        const auto path = nb::steal(
            PyUnicode_DecodeFSDefaultAndSize(self.path().data(), static_cast<Py_ssize_t>(self.path().size())));
        const nb::object shown = nb::module_::import_("crossdock._text").attr("shown")(path);
        return nb::str("<crossdock.FileReader {}: {}>").format(shown, what);
      });
  add_methods_of_columns(module.attr("FileReader"));
  module.def("write_file", write_file, "source"_a, "path"_a, "form"_a, "compression"_a.none(), "level"_a.none());
}

}  // namespace crossdock::python
