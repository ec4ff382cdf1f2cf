#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crossdock/device/driver.h"

namespace crossdock::device {

/// Returns the names under which CUDA's driver library is looked for: only the name in the environment variable
/// CROSSDOCK_CUDA_LIBRARY; without that variable, the names under which NVIDIA installs the library.
std::vector<std::string> cuda_library_candidates();

/// Makes the driver "cuda", for NVIDIA's GPUs, on the first of `candidates` that is CUDA's driver library, 11.2 or
/// later; null if none is. `*tried`, if given, gets a line for each candidate that isn't: its name and the reason.
///
/// The first call of devices(), open(), context_of_queue() or current_context() starts CUDA, and no earlier call does.
/// So a process that only lists drivers may fork and use CUDA in the child. Once CUDA is started, the process's
/// children can't use it: their calls here throw ForkError, and objects that they drop are left to the parent.
///
/// - **Devices** are kCuda, by ordinal. Memory is kCuda (kDevice), kCudaHost (kHost: pinned) or kCudaManaged (kShared)
///   with that ordinal; open() accepts each of the three types for the device that it names.
/// - **Contexts**: open() retains the device's primary context, and releases it with the last object that was made from
///   it; or it works in the CUcontext that it is given. The calling thread's current context doesn't change.
/// - **Memory** of kind kDevice is allocated in the queue's order if the device has memory pools. If such a Buffer is
///   dropped without Context::free(), its memory is freed in the order of a stream that has no other work, after its
///   allocation: neither the host nor another stream waits. The pool is one of the context's own, not the device's
///   default pool; it keeps free memory, up to a sixteenth of the device's (environment variable
///   CROSSDOCK_CUDA_POOL_BYTES), until an allocation needs it or the last object of the context is gone. Memory of
///   other kinds, exportable memory, and all memory of devices without pools is freed by calls in which CUDA may wait
///   for the device. So pass it to Context::free(), which frees it at once if the queue has no work, and otherwise
///   keeps it until the queue's work is done. A later verb of the context (allocate, free, query, wait) frees it once
///   that work is done; the end of the context waits for the rest.
/// - **Queues** are `CUstream` (`cudaStream_t`), made non-blocking. wrap_queue() takes the handles of the legacy (null
///   or 1) and per-thread (2) default streams, and streams of its own context.
/// - **Events** are `CUevent*` (`cudaEvent_t*`), like `sync_event` of the Arrow C Device data interface. If work
///   failed, the events that see it fail too, with CUDA's name and text of the error.
/// - **Memory handles** carry CUDA's 64 bytes, the size, the device's UUID and the exporting process. CUDA shares whole
///   allocations only, so exportable memory takes whole blocks of 2 MiB. Imported memory can be written. In the
///   exporter's process, importing a handle returns the exporter's own memory, since CUDA opens no handle there. In
///   other processes, the exporter must keep the memory until the importer has dropped it: otherwise CUDA's behaviour
///   is undefined.
std::shared_ptr<Driver> make_cuda_driver(const std::vector<std::string>& candidates,
                                         std::vector<std::string>* tried = nullptr);

}  // namespace crossdock::device
