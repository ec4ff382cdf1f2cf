#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/array/stream.h"

/// The Arrow PyCapsule interface: C structures in named capsules.
namespace crossdock::python {

/// Each capsule owns its structure and releases it if nobody has moved it out. array_capsule() copies a device's batch
/// to the host and waits; device_array_capsule() hands out the batch with its event, and waits only for host memory
/// that a device still writes.
nanobind::object schema_capsule(const array::Schema& schema);
nanobind::object array_capsule(const array::RecordBatch& batch);
nanobind::object device_array_capsule(const array::RecordBatch& batch);
/// Of a batch of one column: the column itself instead of a struct around it.
nanobind::object column_schema_capsule(const array::Schema& schema);
nanobind::object column_capsule(const array::RecordBatch& column);
nanobind::object device_column_capsule(const array::RecordBatch& column);
nanobind::object stream_capsule(std::unique_ptr<array::BatchStream> stream);
nanobind::object device_stream_capsule(std::unique_ptr<array::BatchStream> stream);

/// The structure in a capsule that a producer gave; it stays the capsule's until it is moved out. `from` says who gave
/// it. Throws InvalidDataError for anything else, also for one whose content was moved out before.
ArrowSchema* schema_in(nanobind::handle capsule, const char* from);
ArrowArray* array_in(nanobind::handle capsule, const char* from);
ArrowDeviceArray* device_array_in(nanobind::handle capsule, const char* from);
ArrowArrayStream* stream_in(nanobind::handle capsule, const char* from);
ArrowDeviceArrayStream* device_stream_in(nanobind::handle capsule, const char* from);

/// The rule of the device methods: a keyword that isn't known may only be None. Throws Python's NotImplementedError.
void refuse_keywords(const char* method, const nanobind::kwargs& keywords);

}  // namespace crossdock::python
