#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "device/cuda_streams.h"

/// The part of the CUDA driver API that we call. Names, numbers and signatures are those of NVIDIA's public
/// documentation ("CUDA Driver API", and for the versions of functions, its section on driver entry points); no header
/// of CUDA is needed to build.
namespace crossdock::device::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = void*;
using CUstream = void*;
using CUevent = void*;
using CUmemoryPool = void*;

// CUDA's addresses are numbers, ours are pointers.
inline void* to_pointer(CUdeviceptr address) noexcept { return std::bit_cast<void*>(address); }
inline CUdeviceptr to_address(const void* pointer) noexcept { return std::bit_cast<CUdeviceptr>(pointer); }

struct CUuuid {
  unsigned char bytes[16];
};

struct CUipcMemHandle {
  unsigned char reserved[64];
};

struct CUmemLocation {
  int type;
  int id;
};

struct CUmemPoolProps {
  int alloc_type;
  int handle_types;
  CUmemLocation location;
  void* win32_security_attributes;
  std::size_t max_size;  // ours are 0, which older versions, where this is reserved, need too
  unsigned char reserved[56];
};
static_assert(sizeof(CUmemPoolProps) == 88);

// CUresult
constexpr CUresult kSuccess = 0;
constexpr CUresult kInvalidValue = 1;
constexpr CUresult kOutOfMemory = 2;
constexpr CUresult kNotInitialized = 3;
constexpr CUresult kDeinitialized = 4;
constexpr CUresult kNoDevice = 100;
constexpr CUresult kInvalidDevice = 101;
constexpr CUresult kInvalidContext = 201;
constexpr CUresult kMapFailed = 205;
constexpr CUresult kInvalidHandle = 400;
constexpr CUresult kNotReady = 600;
constexpr CUresult kContextIsDestroyed = 709;
constexpr CUresult kNotSupported = 801;

// CUdevice_attribute
constexpr int kManagedMemory = 83;
constexpr int kMemoryPoolsSupported = 115;

// CUpointer_attribute
constexpr int kPointerContext = 1;
constexpr int kPointerMemoryType = 2;
constexpr int kPointerDevicePointer = 3;
constexpr int kPointerHostPointer = 4;
constexpr int kPointerIsManaged = 8;
constexpr int kPointerDeviceOrdinal = 9;
constexpr int kPointerRangeStart = 11;
constexpr int kPointerRangeSize = 12;

// CUmemorytype; 0 is memory that CUDA doesn't know
constexpr unsigned kTypeHost = 1;
constexpr unsigned kTypeDevice = 2;

// Memory pools: kinds of allocations and locations, and attributes of CUmemPool_attribute
constexpr int kAllocationPinned = 1;
constexpr int kLocationDevice = 1;
constexpr int kPoolReleaseThreshold = 4;  // std::uint64_t
constexpr int kPoolReserved = 5;          // std::uint64_t: used, or free and kept

// Flags
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDisableTiming = 2;
constexpr unsigned kHostAllocPortable = 1;
constexpr unsigned kManagedGlobal = 1;
constexpr unsigned kIpcLazyPeerAccess = 1;
constexpr std::uint64_t kProcAddressLegacyStream = 1;

/// F(member, name, version of CUDA that introduced this signature, name by which libraries export it, parameters)
#define CROSSDOCK_CUDA_FUNCTIONS(F)                                                                                  \
  F(init, "cuInit", 2000, "cuInit", (unsigned))                                                                      \
  F(driver_get_version, "cuDriverGetVersion", 2020, "cuDriverGetVersion", (int*))                                    \
  F(get_error_name, "cuGetErrorName", 6000, "cuGetErrorName", (CUresult, const char**))                              \
  F(get_error_string, "cuGetErrorString", 6000, "cuGetErrorString", (CUresult, const char**))                        \
  F(device_get_count, "cuDeviceGetCount", 2000, "cuDeviceGetCount", (int*))                                          \
  F(device_get, "cuDeviceGet", 2000, "cuDeviceGet", (CUdevice*, int))                                                \
  F(device_get_name, "cuDeviceGetName", 2000, "cuDeviceGetName", (char*, int, CUdevice))                             \
  F(device_total_mem, "cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2", (std::size_t*, CUdevice))                     \
  F(device_get_attribute, "cuDeviceGetAttribute", 2000, "cuDeviceGetAttribute", (int*, int, CUdevice))               \
  F(device_get_uuid, "cuDeviceGetUuid", 9020, "cuDeviceGetUuid", (CUuuid*, CUdevice))                                \
  F(device_primary_ctx_retain, "cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice)) \
  F(device_primary_ctx_release, "cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2", (CUdevice))      \
  F(device_primary_ctx_get_state, "cuDevicePrimaryCtxGetState", 7000, "cuDevicePrimaryCtxGetState",                  \
    (CUdevice, unsigned*, int*))                                                                                     \
  F(ctx_get_current, "cuCtxGetCurrent", 4000, "cuCtxGetCurrent", (CUcontext*))                                       \
  F(ctx_push_current, "cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2", (CUcontext))                                  \
  F(ctx_pop_current, "cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2", (CUcontext*))                                    \
  F(ctx_synchronize, "cuCtxSynchronize", 2000, "cuCtxSynchronize", ())                                               \
  F(ctx_get_device, "cuCtxGetDevice", 2000, "cuCtxGetDevice", (CUdevice*))                                           \
  F(mem_alloc, "cuMemAlloc", 3020, "cuMemAlloc_v2", (CUdeviceptr*, std::size_t))                                     \
  F(mem_free, "cuMemFree", 3020, "cuMemFree_v2", (CUdeviceptr))                                                      \
  F(mem_alloc_async, "cuMemAllocAsync", 11020, "cuMemAllocAsync", (CUdeviceptr*, std::size_t, CUstream))             \
  F(mem_free_async, "cuMemFreeAsync", 11020, "cuMemFreeAsync", (CUdeviceptr, CUstream))                              \
  F(mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync", 11020, "cuMemAllocFromPoolAsync",                          \
    (CUdeviceptr*, std::size_t, CUmemoryPool, CUstream))                                                             \
  F(mem_pool_create, "cuMemPoolCreate", 11020, "cuMemPoolCreate", (CUmemoryPool*, const CUmemPoolProps*))            \
  F(mem_pool_destroy, "cuMemPoolDestroy", 11020, "cuMemPoolDestroy", (CUmemoryPool))                                 \
  F(mem_pool_set_attribute, "cuMemPoolSetAttribute", 11020, "cuMemPoolSetAttribute", (CUmemoryPool, int, void*))     \
  F(mem_pool_get_attribute, "cuMemPoolGetAttribute", 11020, "cuMemPoolGetAttribute", (CUmemoryPool, int, void*))     \
  F(mem_pool_trim_to, "cuMemPoolTrimTo", 11020, "cuMemPoolTrimTo", (CUmemoryPool, std::size_t))                      \
  F(mem_host_alloc, "cuMemHostAlloc", 2020, "cuMemHostAlloc", (void**, std::size_t, unsigned))                       \
  F(mem_free_host, "cuMemFreeHost", 2000, "cuMemFreeHost", (void*))                                                  \
  F(mem_alloc_managed, "cuMemAllocManaged", 6000, "cuMemAllocManaged", (CUdeviceptr*, std::size_t, unsigned))        \
  F(memcpy_async, "cuMemcpyAsync", 4000, "cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, std::size_t, CUstream))         \
  F(memcpy_peer_async, "cuMemcpyPeerAsync", 4000, "cuMemcpyPeerAsync",                                               \
    (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t, CUstream))                                         \
  F(pointer_get_attributes, "cuPointerGetAttributes", 7000, "cuPointerGetAttributes",                                \
    (unsigned, int*, void**, CUdeviceptr))                                                                           \
  F(stream_create, "cuStreamCreate", 2000, "cuStreamCreate", (CUstream*, unsigned))                                  \
  F(stream_destroy, "cuStreamDestroy", 4000, "cuStreamDestroy_v2", (CUstream))                                       \
  F(stream_get_ctx, "cuStreamGetCtx", 9020, "cuStreamGetCtx", (CUstream, CUcontext*))                                \
  F(stream_is_capturing, "cuStreamIsCapturing", 10000, "cuStreamIsCapturing", (CUstream, int*))                      \
  F(stream_query, "cuStreamQuery", 2000, "cuStreamQuery", (CUstream))                                                \
  F(stream_synchronize, "cuStreamSynchronize", 2000, "cuStreamSynchronize", (CUstream))                              \
  F(stream_wait_event, "cuStreamWaitEvent", 3020, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                \
  F(event_create, "cuEventCreate", 2000, "cuEventCreate", (CUevent*, unsigned))                                      \
  F(event_destroy, "cuEventDestroy", 4000, "cuEventDestroy_v2", (CUevent))                                           \
  F(event_record, "cuEventRecord", 2000, "cuEventRecord", (CUevent, CUstream))                                       \
  F(event_query, "cuEventQuery", 2000, "cuEventQuery", (CUevent))                                                    \
  F(event_synchronize, "cuEventSynchronize", 2000, "cuEventSynchronize", (CUevent))                                  \
  F(ipc_get_mem_handle, "cuIpcGetMemHandle", 4010, "cuIpcGetMemHandle", (CUipcMemHandle*, CUdeviceptr))              \
  F(ipc_open_mem_handle, "cuIpcOpenMemHandle", 11000, "cuIpcOpenMemHandle_v2",                                       \
    (CUdeviceptr*, CUipcMemHandle, unsigned))                                                                        \
  F(ipc_close_mem_handle, "cuIpcCloseMemHandle", 4010, "cuIpcCloseMemHandle", (CUdeviceptr))

/// The same for functions that a driver may lack.
#define CROSSDOCK_CUDA_OPTIONAL_FUNCTIONS(F)                                    \
  F(ctx_get_id, "cuCtxGetId", 12000, "cuCtxGetId", (CUcontext, std::uint64_t*)) \
  F(device_get_uuid_v2, "cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2", (CUuuid*, CUdevice))

/// The functions that were found in a library. If one is missing that isn't optional, there is no driver.
struct Api {
// A list of parameters can't have extra parentheses.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define CROSSDOCK_CUDA_MEMBER(member, name, version, exported, parameters) CUresult(*member) parameters = nullptr;
  CROSSDOCK_CUDA_FUNCTIONS(CROSSDOCK_CUDA_MEMBER)
  CROSSDOCK_CUDA_OPTIONAL_FUNCTIONS(CROSSDOCK_CUDA_MEMBER)
#undef CROSSDOCK_CUDA_MEMBER
};

}  // namespace crossdock::device::cuda
