#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

/// Where CUDA's driver library is looked for: what the environment variable CROSSDOCK_CUDA_LIBRARY names, and then
/// nothing else; without it, the names that NVIDIA installs it under.
CROSSDOCK_EXPORT std::vector<std::string> cuda_library_candidates();

/// The driver "cuda", of NVIDIA's GPUs, on the first of `candidates` that is CUDA's driver library, 11.2 or later; null
/// if none is. `*tried`, where given, gets a line for each that isn't: its name and the reason.
///
/// CUDA itself is started by the first call of devices() or open(), or of what asks it for a stream's or the thread's
/// device, and not before, so that a process that only looks which drivers there are may fork and use CUDA in the
/// child. Once it is started, the process's children can't use it: what they call here throws ForkError, and what they
/// drop is left to the parent.
///
/// - **Devices** are kCuda, by ordinal. Memory is kCuda (kDevice), kCudaHost (kHost: pinned) or kCudaManaged (kShared)
///   with that ordinal; open() takes each of the three types for the device that it names.
/// - **Contexts**: open() retains the device's primary context and releases it with the last of what was made from
///   it, or works in the CUcontext that it is given. Whatever context the calling thread has current stays so.
/// - **Memory** of kind kDevice is allocated in the queue's order where the device has memory pools. Dropped plainly,
///   it is freed in the order of a stream that nobody else uses, after its allocation: the host doesn't wait and
///   no other stream does. Memory of other kinds, exportable memory, and all of devices without pools is freed by
///   calls in which CUDA may wait for the device by itself; hand it to Context::free(), which holds it until the
///   queue's work is done. What free() holds goes when a later verb of the context (allocate, free, query, wait) finds
///   the work done; the context's end waits for the rest.
/// - **Queues** are `CUstream` (`cudaStream_t`), made non-blocking. wrap_queue() takes the handles of the legacy (null
///   or 1) and per-thread (2) default streams, and streams of its own context.
/// - **Events** are `CUevent*` (`cudaEvent_t*`), as `sync_event` of the Arrow C Device data interface is. Work that
///   failed makes the events that see it fail, with CUDA's name and text of the error.
/// - **Memory handles** carry CUDA's 64 bytes, the size, the device's UUID and who exports. CUDA shares what it calls
/// an
///   allocation and no less, so exportable memory takes whole blocks of 2 MiB. Imported memory can be written. In the
///   exporter's process a handle is the exporter's own memory, since CUDA opens none there. Elsewhere the exporter must
///   keep the memory until the importer has dropped it: CUDA leaves what happens otherwise undefined.
CROSSDOCK_EXPORT std::shared_ptr<Driver> make_cuda_driver(const std::vector<std::string>& candidates,
                                                          std::vector<std::string>* tried = nullptr);

}  // namespace crossdock::device
