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

void bind_types(nanobind::module_& module);

}  // namespace crossdock::python
