#pragma once

#include <cstddef>
#include <cstdint>

/// The part of dpctl's C library (libDPCTLSyclInterface.so) that we call: SYCL's classes behind opaque pointers. Names,
/// numbers and signatures are those of its public headers; the headers aren't needed to build. A `…Ref` is a pointer to
/// the C++ object of SYCL in its name, so a QueueRef is a `sycl::queue*`.
namespace crossdock::device::sycl {

struct OpaqueDevice;
struct OpaqueDevices;
struct OpaqueContext;
struct OpaqueQueue;
struct OpaqueEvent;
using DeviceRef = OpaqueDevice*;
using DevicesRef = OpaqueDevices*;  // a std::vector of DeviceRef
using ContextRef = OpaqueContext*;
using QueueRef = OpaqueQueue*;
using EventRef = OpaqueEvent*;

/// Called by SYCL, with the code of an asynchronous error, in the thread that waits.
using ErrorHandler = void(int);

// DPCTLSyclBackendType and DPCTLSyclDeviceType, which are combined into one number
constexpr int kBackendCuda = 1 << 16;
constexpr int kBackendLevelZero = 1 << 17;
constexpr int kBackendOpenCl = 1 << 18;
constexpr int kBackendHip = 1 << 19;
constexpr int kEveryDevice = (((1 << 5) - 1) << 16) | ((1 << 6) - 1);

// DPCTLSyclAspectType
constexpr int kUsmDevice = 12;
constexpr int kUsmHost = 13;
constexpr int kUsmShared = 14;

// DPCTLSyclUSMType; 0 is memory that the context doesn't know
constexpr int kTypeDevice = 1;
constexpr int kTypeShared = 2;
constexpr int kTypeHost = 3;

// DPCTLQueuePropertyType
constexpr int kProfiling = 1 << 0;
constexpr int kInOrder = 1 << 1;

// DPCTLSyclEventStatusType
constexpr int kStatusUnknown = 0;
constexpr int kStatusComplete = 3;

/// F(member, name, result, parameters). A function that makes an object passes its ownership to the caller, who deletes
/// it. Functions don't take ownership of parameters. A function that fails returns null, and writes the reason to the
/// standard error stream if DPCTL_VERBOSITY is set.
#define CROSSDOCK_SYCL_FUNCTIONS(F)                                                                               \
  F(version, "DPCTLService_GetDPCPPVersion", const char*, ())                                                     \
  F(string_delete, "DPCTLCString_Delete", void, (const char*))                                                    \
  F(get_devices, "DPCTLDeviceMgr_GetDevices", DevicesRef, (int))                                                  \
  F(devices_size, "DPCTLDeviceVector_Size", std::size_t, (DevicesRef))                                            \
  F(devices_at, "DPCTLDeviceVector_GetAt", DeviceRef, (DevicesRef, std::size_t))                                  \
  F(devices_delete, "DPCTLDeviceVector_Delete", void, (DevicesRef))                                               \
  F(device_position, "DPCTLDeviceMgr_GetPositionInDevices", int, (DeviceRef, int))                                \
  F(device_delete, "DPCTLDevice_Delete", void, (DeviceRef))                                                       \
  F(device_copy, "DPCTLDevice_Copy", DeviceRef, (DeviceRef))                                                      \
  F(device_equal, "DPCTLDevice_AreEq", bool, (DeviceRef, DeviceRef))                                              \
  F(device_parent, "DPCTLDevice_GetParentDevice", DeviceRef, (DeviceRef))                                         \
  F(device_backend, "DPCTLDevice_GetBackend", int, (DeviceRef))                                                   \
  F(device_is_cpu, "DPCTLDevice_IsCPU", bool, (DeviceRef))                                                        \
  F(device_is_gpu, "DPCTLDevice_IsGPU", bool, (DeviceRef))                                                        \
  F(device_name, "DPCTLDevice_GetName", const char*, (DeviceRef))                                                 \
  F(device_memory, "DPCTLDevice_GetGlobalMemSize", std::uint64_t, (DeviceRef))                                    \
  F(device_has, "DPCTLDevice_HasAspect", bool, (DeviceRef, int))                                                  \
  F(device_partition, "DPCTLDevice_CreateSubDevicesEqually", DevicesRef, (DeviceRef, std::size_t))                \
  F(device_context, "DPCTLDeviceMgr_GetCachedContext", ContextRef, (DeviceRef))                                   \
  F(context_delete, "DPCTLContext_Delete", void, (ContextRef))                                                    \
  F(context_copy, "DPCTLContext_Copy", ContextRef, (ContextRef))                                                  \
  F(context_equal, "DPCTLContext_AreEq", bool, (ContextRef, ContextRef))                                          \
  F(context_devices, "DPCTLContext_GetDevices", DevicesRef, (ContextRef))                                         \
  F(queue_create, "DPCTLQueue_Create", QueueRef, (ContextRef, DeviceRef, ErrorHandler*, int))                     \
  F(queue_create_for, "DPCTLQueue_CreateForDevice", QueueRef, (DeviceRef, ErrorHandler*, int))                    \
  F(queue_delete, "DPCTLQueue_Delete", void, (QueueRef))                                                          \
  F(queue_copy, "DPCTLQueue_Copy", QueueRef, (QueueRef))                                                          \
  F(queue_equal, "DPCTLQueue_AreEq", bool, (QueueRef, QueueRef))                                                  \
  F(queue_hash, "DPCTLQueue_Hash", std::size_t, (QueueRef))                                                       \
  F(queue_context, "DPCTLQueue_GetContext", ContextRef, (QueueRef))                                               \
  F(queue_device, "DPCTLQueue_GetDevice", DeviceRef, (QueueRef))                                                  \
  F(queue_is_in_order, "DPCTLQueue_IsInOrder", bool, (QueueRef))                                                  \
  F(queue_has_profiling, "DPCTLQueue_HasEnableProfiling", bool, (QueueRef))                                       \
  F(queue_wait, "DPCTLQueue_Wait", void, (QueueRef))                                                              \
  F(queue_memcpy, "DPCTLQueue_Memcpy", EventRef, (QueueRef, void*, const void*, std::size_t))                     \
  F(queue_barrier, "DPCTLQueue_SubmitBarrier", EventRef, (QueueRef))                                              \
  F(queue_barrier_after, "DPCTLQueue_SubmitBarrierForEvents", EventRef, (QueueRef, const EventRef*, std::size_t)) \
  F(event_delete, "DPCTLEvent_Delete", void, (EventRef))                                                          \
  F(event_status, "DPCTLEvent_GetCommandExecutionStatus", int, (EventRef))                                        \
  F(event_wait, "DPCTLEvent_WaitAndThrow", void, (EventRef))                                                      \
  F(alloc_device, "DPCTLaligned_alloc_device", void*, (std::size_t, std::size_t, QueueRef))                       \
  F(alloc_host, "DPCTLaligned_alloc_host", void*, (std::size_t, std::size_t, QueueRef))                           \
  F(alloc_shared, "DPCTLaligned_alloc_shared", void*, (std::size_t, std::size_t, QueueRef))                       \
  F(free, "DPCTLfree_with_context", void, (void*, ContextRef))                                                    \
  F(pointer_type, "DPCTLUSM_GetPointerType", int, (void*, ContextRef))                                            \
  F(pointer_device, "DPCTLUSM_GetPointerDevice", DeviceRef, (void*, ContextRef))

/// The functions that were found in a library. If one is missing, there is no driver.
struct Api {
// Neither a result nor a list of parameters can have extra parentheses.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define CROSSDOCK_SYCL_MEMBER(member, name, result, parameters) result(*member) parameters = nullptr;
  CROSSDOCK_SYCL_FUNCTIONS(CROSSDOCK_SYCL_MEMBER)
#undef CROSSDOCK_SYCL_MEMBER
};

}  // namespace crossdock::device::sycl
