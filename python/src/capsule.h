#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/array/stream.h"

/// Makes and reads capsules of the Arrow PyCapsule interface, which hold C structures and have fixed names.
namespace crossdock::python {

/// Make capsules. A capsule owns its structure, and releases it unless a consumer has moved it out. array_capsule()
/// copies a batch on a device to the host, and waits. device_array_capsule() exports the batch with its event, and
/// waits only for host memory that a device still writes.
nanobind::object schema_capsule(const array::Schema& schema);
nanobind::object array_capsule(const array::RecordBatch& batch);
nanobind::object device_array_capsule(const array::RecordBatch& batch);
/// Make capsules of a batch of one column. They hold the column itself instead of a struct of columns.
nanobind::object column_schema_capsule(const array::Schema& schema);
nanobind::object column_capsule(const array::RecordBatch& column);
nanobind::object device_column_capsule(const array::RecordBatch& column);
nanobind::object stream_capsule(std::unique_ptr<array::BatchStream> stream);
nanobind::object device_stream_capsule(std::unique_ptr<array::BatchStream> stream);

/// Return the structure in a producer's capsule. The capsule owns it until the caller moves it out. `from` names the
/// producer's method in errors. Throw InvalidDataError if the object is no such capsule, or if its content was moved
/// out before.
ArrowSchema* schema_in(nanobind::handle capsule, const char* from);
ArrowArray* array_in(nanobind::handle capsule, const char* from);
ArrowDeviceArray* device_array_in(nanobind::handle capsule, const char* from);
ArrowArrayStream* stream_in(nanobind::handle capsule, const char* from);
ArrowDeviceArrayStream* device_stream_in(nanobind::handle capsule, const char* from);

/// Applies the rule of the device methods that an unknown keyword must be None. Throws Python's NotImplementedError.
void refuse_keywords(const char* method, const nanobind::kwargs& keywords);

}  // namespace crossdock::python
