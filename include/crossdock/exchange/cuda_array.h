#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/registry.h"

/// The CUDA Array Interface (https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html), versions 0 to 3
/// read, 3 written: what it means. Its dictionary is Python's, and is read and written there.
namespace crossdock::exchange {

inline constexpr int kCudaArrayVersion = 3;

/// The entry `stream` where it isn't None: 1 is the legacy default stream, 2 the per-thread one, else a `cudaStream_t`.
using CudaStream = std::optional<std::int64_t>;

/// Makes a tensor of what a dictionary says: of `*tensor` type, extents, data and read_only are set, and owner and mask
/// where there are any. The driver is asked for the pointer's attributes: they say the device, the kind of memory, the
/// address that the device uses, and the allocation, which the elements must not leave. Where no driver of CUDA was
/// found the pointer and the stream are carried as they are, on device 0, with an event that is out of reach (sync.h).
/// A device that isn't open is opened for its own arrays and streams only, unless none is open yet.
///
/// Order: with `sync`, the tensor's event is the end of the work that is on `stream` now, and its queue is that stream:
/// work elsewhere comes after the one, and the stream after that work. Versions 0 to 2 promise no order, so that the
/// legacy default stream is taken. A stream may be another device's, which works on this memory; a default stream is
/// that of the memory's device, and the per-thread one the calling thread's. Without `sync` the array counts as ready,
/// whatever `stream` says. Waits for nothing.
///
/// Throws InvalidDataError: a version above 3 or below 0, with `sync` stream 0 or a negative one, a pointer that the
/// driver doesn't know, elements outside the allocation, extents that make no sense, a mask on another device.
CROSSDOCK_EXPORT void import_cuda_array(array::Tensor* tensor, std::int64_t version, CudaStream stream, bool sync,
                                        const device::DriverRegistry& drivers);

/// The stream to show: such that synchronising with it is enough. None if nothing is to be waited for, and the tensor
/// has no queue. Orders the tensor's queue, or the device's default one if it has none (its queue's device's where that
/// is bound to another thread), after the tensor's event, and sets that as its queue, which must be kept as long as the
/// stream is shown. Waits for nothing. Throws ExportError for memory that isn't CUDA's, or has no typestr.
CROSSDOCK_EXPORT CudaStream export_cuda_array(array::Tensor* tensor, const device::DriverRegistry& drivers);

/// Memory that a CUDA device can reach: its own, pinned, or managed.
CROSSDOCK_EXPORT bool is_cuda(device::DeviceType type) noexcept;

}  // namespace crossdock::exchange
