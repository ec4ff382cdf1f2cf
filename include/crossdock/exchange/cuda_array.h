#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/registry.h"

/// The CUDA Array Interface (https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html): reads versions 0
/// to 3, writes 3. This is its meaning only; the Python layer reads and writes the dictionary.
namespace crossdock::exchange {

/// The version of the CUDA Array Interface that exports follow.
inline constexpr int kCudaArrayVersion = 3;

/// The entry `stream`; nullopt for None. 1 is the legacy default stream, 2 the per-thread default stream, any other
/// number a `cudaStream_t`.
using CudaStream = std::optional<std::int64_t>;

/// Completes a tensor from the entries of a dictionary. The caller has set type, extents, data and read_only of
/// `*tensor`, and owner and mask if there are any.
///
/// Asks the driver for the pointer's attributes: the device, the kind of memory, the address (the host's for pinned
/// memory, else the device's), and the allocation that the elements must not leave. Without elements, the pointer or
/// the stream tells the device. If no CUDA driver was found, pointer and stream are kept unchanged, on device 0, and
/// the stream is out of reach (device::Memory::out_of_reach()). Opens a device only for arrays and streams of that
/// device; if no device is open yet, opens one to ask it.
///
/// Order: with `sync`, `stream` becomes the tensor's queue, and all work on it is pending on the tensor. Versions 0 to
/// 2 promise no order, so the legacy default stream is used for them. `stream` may belong to another device that works
/// on this memory. A default stream is that of the memory's device; the per-thread one is the calling thread's. Without
/// `sync` the array counts as ready, whatever `stream` says. Doesn't wait.
///
/// Throws InvalidDataError for a version above 3 or below 0, for stream 0 or a negative one with `sync`, for a pointer
/// that the driver doesn't know, for elements outside the allocation, for invalid extents, and for a mask on another
/// device.
CROSSDOCK_EXPORT void import_cuda_array(array::Tensor* tensor, std::int64_t version, CudaStream stream, bool sync,
                                        const device::DriverRegistry& drivers);

/// Returns the stream to show to a consumer: synchronising with it is enough. Returns nullopt if there is nothing to
/// wait for and the tensor has no queue.
///
/// Orders a queue after what is pending on the tensor and makes it the tensor's queue: the tensor's own queue, or the
/// default queue of the tensor's device if it has none, or the default queue of that queue's device if the queue is
/// bound to another thread. Sets `tensor->data` to the device's address, which may differ from the host's for pinned
/// memory. The caller must keep the queue as long as the stream is shown. Doesn't wait. Throws ExportError for memory
/// that isn't CUDA's, or for elements without a typestr.
CROSSDOCK_EXPORT CudaStream export_cuda_array(array::Tensor* tensor, const device::DriverRegistry& drivers);

/// True for memory that a CUDA device can reach: its own, pinned, or managed.
CROSSDOCK_EXPORT bool is_cuda(device::DeviceType type) noexcept;

}  // namespace crossdock::exchange
