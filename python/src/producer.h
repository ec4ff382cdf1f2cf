#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>

#include "crossdock/array/stream.h"
#include "transport/transport.h"

/// Reads record batches from Python objects that implement the Arrow PyCapsule interface.
namespace crossdock::python {

/// Opens a stream of batches from an object with an Arrow PyCapsule method, or from a list, a tuple or an iterator of
/// such objects, of which the first is taken at once.
/// Each batch is where the object's data is, with its event; nothing is copied. The methods are tried in this order:
/// __arrow_c_device_stream__, __arrow_c_stream__, __arrow_c_device_array__, __arrow_c_array__; items of a list need one
/// of the last two. A struct array becomes a batch. Any other array becomes a table of one column, with the name in its
/// schema. The stream and its batches may be dropped on any thread (see deferred.h). Needs the GIL; next() doesn't.
/// Throws UnsupportedTypeError (no such method), and the errors of the producer.
std::unique_ptr<array::BatchStream> open_stream(nanobind::handle producer);

/// The same as open_stream(), for data that will be served or written: its memory can be read by the host, by its type,
/// or copied by a driver. If the data is on a device without a driver, tries the methods for the host first, in which
/// the producer copies. Throws UnsupportedError, which names the device, if it has none.
std::unique_ptr<array::BatchStream> open_producer(nanobind::handle producer);

/// The same as open_producer(), for a live source, which only the server's own threads read. Marks these threads
/// (source_thread.h), and turns errors into RemoteError, except UnsupportedTypeError.
std::unique_ptr<array::BatchStream> open_live(nanobind::handle producer);

/// Imports one batch, on any device, from an object with __arrow_c_device_array__ or __arrow_c_array__. Prefers the
/// first method, unless the object's attribute is_cpu is true. Returns nullopt if the object has neither. The batch may
/// be dropped on any thread.
std::optional<array::RecordBatch> open_array(nanobind::handle producer);

/// Imports the only batch, on any device, of an object with __arrow_c_device_stream__ or __arrow_c_stream__. Reads the
/// stream to its end, and ignores chunks without rows. Returns nullopt if the object has neither method. Throws
/// ExportError for more than one batch.
std::optional<array::RecordBatch> open_only_batch(nanobind::handle producer);

/// Calls open_array(), then open_only_batch(). Throws UnsupportedTypeError if the object has none of their methods.
array::RecordBatch open_batch(nanobind::handle producer);

/// Wraps a stream. It calls `hook` before each batch, and throws InterruptedError if the hook returns true, so that
/// Ctrl-C can interrupt the reading of a table.
std::unique_ptr<array::BatchStream> interruptible_stream(std::unique_ptr<array::BatchStream> stream,
                                                         transport::InterruptHook hook);

/// Returns a factory that calls `callable` for each stream, on a thread of the server. An exception of `callable`
/// becomes a RemoteError with its text.
std::function<std::unique_ptr<array::BatchStream>()> factory_of(nanobind::handle callable);

}  // namespace crossdock::python
