#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "array/convert.h"
#include "crossdock/array/c_abi.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/array/stream.h"

/// Makes and reads capsules of the Arrow PyCapsule interface, which hold C structures and have fixed names.
namespace crossdock::python {

/// What is exported: a struct of the columns of a batch, or the only column itself.
enum class Form : std::uint8_t { kTable, kColumn };

/// The conversion to the schema that a consumer requests; null if it requests none, or the schema that there is.
using Request = std::shared_ptr<const array::Conversion>;

/// Reads the argument `requested_schema` of an export of `has` in memory of device type `on`. Throws Python's TypeError
/// if it is neither None nor a capsule "arrow_schema"; UnsupportedTypeError if it differs in more than the encoding;
/// UnsupportedError if data of a device would have to be read.
Request request_of(nanobind::handle requested, const std::shared_ptr<const array::Schema>& has,
                   device::DeviceType on = device::DeviceType::kCpu, Form form = Form::kTable);

/// Make capsules. A capsule owns its structure, and releases it unless a consumer has moved it out. array_capsules()
/// returns a schema and an array in host memory: copies a batch on a device to the host, and waits.
/// device_array_capsules() exports the batch with its event, and waits only for host memory that a device still writes.
/// Batches are converted as `requested`, each with a line in the log if that copies bytes.
nanobind::object schema_capsule(const array::Schema& schema, Form form = Form::kTable);
nanobind::tuple array_capsules(const array::RecordBatch& batch, nanobind::handle requested, Form form = Form::kTable);
nanobind::tuple device_array_capsules(const array::RecordBatch& batch, nanobind::handle requested,
                                      Form form = Form::kTable);
nanobind::object stream_capsule(std::unique_ptr<array::BatchStream> stream, const Request& request);
nanobind::object device_stream_capsule(std::unique_ptr<array::BatchStream> stream, const Request& request);

/// Returns the structure in a producer's capsule: a schema, array or stream of Arrow's C interfaces. The capsule owns
/// it until the caller moves it out. `from` names the producer's method in errors. Throws InvalidDataError if the
/// object is no such capsule, or if its content was moved out before.
template <class T>
T* content(nanobind::handle capsule, const char* from);

/// Applies the rule of the device methods that an unknown keyword must be None. Throws Python's NotImplementedError.
void refuse_keywords(const char* method, const nanobind::kwargs& keywords);

}  // namespace crossdock::python
