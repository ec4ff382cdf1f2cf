#include "module.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <new>
#include <string>

#include "crossdock/core/error.h"
#include "dissociated/request.h"
#include "ipc/metadata.h"
#include "session/batch_statistics.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

template <class Count>
Count at_least_one(Count count, const char* name) {
  if (count < 1) throw InvalidArgumentError(std::string(name) + " must be at least 1; it was " + std::to_string(count));
  return count;
}

}  // namespace

void bind_limits(nb::module_& module) {
  module.attr("MOST_RANGES") = dissociated::kMostRanges;
  module.attr("MOST_COLUMNS") = dissociated::kMostColumns;
  module.attr("MOST_COLUMN_BYTES") = dissociated::kMostColumnBytes;
  module.attr("MOST_BATCH_STATISTICS") = session::kMostBatchStatistics;
  using ipc::Limits;
  const Limits usual;
  nb::class_<Limits>(module, "Limits",
                     "Limits for data from other processes and files. Data over a limit raises InvalidDataError, "
                     "before memory is allocated. Immutable.")
      .def(
          "__init__",
          [](Limits* self, std::int32_t depth, std::int32_t fields, std::int32_t buffers, std::int64_t metadata_bytes,
             std::int64_t decompressed_bytes) {
            new (self) Limits{.max_depth = at_least_one(depth, "max_depth"),
                              .max_fields = at_least_one(fields, "max_fields"),
                              .max_metadata_bytes = at_least_one(metadata_bytes, "max_metadata_bytes"),
                              .max_decompressed_bytes = at_least_one(decompressed_bytes, "max_decompressed_bytes"),
                              .max_buffers = at_least_one(buffers, "max_buffers")};
          },
          nb::kw_only(), "max_depth"_a = usual.max_depth, "max_fields"_a = usual.max_fields,
          "max_buffers"_a = usual.max_buffers, "max_metadata_bytes"_a = usual.max_metadata_bytes,
          "max_decompressed_bytes"_a = usual.max_decompressed_bytes)
      .def_ro("max_depth", &Limits::max_depth,
              "The most levels of nesting; the values of a dictionary are one level below their field.")
      .def_ro("max_fields", &Limits::max_fields, "The most fields of one schema, at all levels.")
      .def_ro("max_buffers", &Limits::max_buffers, "The most buffers of one batch.")
      .def_ro("max_metadata_bytes", &Limits::max_metadata_bytes, "The most bytes of the metadata of one message.")
      .def_ro("max_decompressed_bytes", &Limits::max_decompressed_bytes,
              "The most bytes of one compressed batch when it is decompressed.")
      .def("__repr__", [](const Limits& self) {
        return "crossdock.Limits(max_depth=" + std::to_string(self.max_depth) +
               ", max_fields=" + std::to_string(self.max_fields) + ", max_buffers=" + std::to_string(self.max_buffers) +
               ", max_metadata_bytes=" + std::to_string(self.max_metadata_bytes) +
               ", max_decompressed_bytes=" + std::to_string(self.max_decompressed_bytes) + ")";
      });
}

}  // namespace crossdock::python
