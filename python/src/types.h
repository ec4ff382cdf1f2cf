#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"

namespace crossdock::python {

/// crossdock.Schema
struct PySchema {
  std::shared_ptr<const array::Schema> schema;
};

/// crossdock.RecordBatch
struct PyRecordBatch {
  array::RecordBatch batch;
};

/// Returns a count, or None for a negative one, which is unknown.
inline nanobind::object count_or_none(std::int64_t count) {
  return count < 0 ? nanobind::object(nanobind::none()) : nanobind::object(nanobind::int_(count));
}

/// Converts metadata to a dict, as pyarrow does. If a key occurs twice, the last value counts.
nanobind::dict dict_of(const array::Metadata& metadata);

void bind_types(nanobind::module_& module);

/// Adds the methods that are written in Python to a type that has columns: those of crossdock._frames, which pass it to
/// other libraries, and those of crossdock._columns, which tell consumers of arrays what to call.
void add_methods_of_columns(nanobind::handle type);

/// Returns an object as HTML, by the function of that name of crossdock._html, which is imported when it is first used.
nanobind::object html_of(nanobind::handle object, const char* function);

}  // namespace crossdock::python
