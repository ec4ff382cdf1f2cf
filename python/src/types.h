#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

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

/// Converts metadata to a dict, as pyarrow does. If a key occurs twice, the last value counts.
nanobind::dict dict_of(const array::Metadata& metadata);

void bind_types(nanobind::module_& module);

}  // namespace crossdock::python
