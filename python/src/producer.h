#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>

#include "crossdock/array/stream.h"
#include "crossdock/transport/transport.h"

/// Python objects as producers of batches.
namespace crossdock::python {

/// The batches on the host of anything with an Arrow PyCapsule method, in this order: __arrow_c_stream__,
/// __arrow_c_device_stream__, __arrow_c_array__, __arrow_c_device_array__; and of a list or tuple of what has one of
/// the last two. A struct is a batch; any other array, a table of one column named as its schema is. The stream, and
/// what it yields, may be dropped on any thread (see deferred.h). Needs the interpreter lock; next() doesn't. Throws
/// UnsupportedTypeError (no such method; memory of another device), and what the producer raises.
std::unique_ptr<array::BatchStream> open_producer(nanobind::handle producer);

/// open_producer() for a live source, which is read on the server's own threads and no others: they are marked as such,
/// and errors become RemoteError, apart from UnsupportedTypeError.
std::unique_ptr<array::BatchStream> open_live(nanobind::handle producer);

/// The batches where they are, on any device, each with its event; likewise, but __arrow_c_device_stream__ comes first.
std::unique_ptr<array::BatchStream> open_stream(nanobind::handle producer);

/// The one batch of an object with __arrow_c_device_array__ or __arrow_c_array__, of any device; likewise. The first is
/// preferred, unless the object says is_cpu. Nothing for an object that has neither.
std::optional<array::RecordBatch> open_array(nanobind::handle producer);

/// The one batch of an object with __arrow_c_device_stream__ or __arrow_c_stream__, of any device; chunks without rows
/// don't count. Reads the stream to its end. Nothing for an object that has neither; throws ExportError for more.
std::optional<array::RecordBatch> open_only_batch(nanobind::handle producer);

/// Either of the two. Throws UnsupportedTypeError for an object that has none of those methods.
array::RecordBatch open_batch(nanobind::handle producer);

/// The same stream, which asks `hook` before each batch and throws InterruptedError where it says so: reading a whole
/// table answers Ctrl-C.
std::unique_ptr<array::BatchStream> interruptible_stream(std::unique_ptr<array::BatchStream> stream,
                                                         transport::InterruptHook hook);

/// Calls `callable` for each stream, on a thread of the server's own. What it raises becomes an error of the stream
/// that says so in its words.
std::function<std::unique_ptr<array::BatchStream>()> factory_of(nanobind::handle callable);

}  // namespace crossdock::python
