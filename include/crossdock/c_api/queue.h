/* Queues of devices' work, by name. */
#ifndef CROSSDOCK_C_API_QUEUE_H
#define CROSSDOCK_C_API_QUEUE_H

#include "crossdock/array/c_abi.h"
#include "crossdock/c_api/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A queue of a device (a CUDA stream, a SYCL queue). Immutable: several threads may use the handle. */
typedef struct crossdock_queue crossdock_queue;

/** Finds the queue of the device that `filter` chooses: "gpu", "cuda:1", "opencl:cpu:0", "gpu,cpu"; empty: the first of
 * "gpu,accelerator,cpu". docs/how-to/offload.md has the grammar. The queue is the device's own one, or, if `name` isn't
 * empty, another one of this name, which the first request makes. The same arguments give the same queue to every
 * caller in the process, also to C++ code that asks crossdock::session::Runtime::default_runtime(), so that packages
 * put their work in one order. Errors: INVALID_ARGUMENT (no filter string), NOT_FOUND (no such device; the text lists
 * those that exist), UNSUPPORTED. */
CROSSDOCK_API crossdock_status crossdock_queue_find(crossdock_string filter, crossdock_string name,
                                                    crossdock_queue** queue, crossdock_error** error);
/** Frees the handle and sets `*queue` to NULL; the queue itself stays, for others who ask. Does nothing if `queue` or
 * `*queue` is NULL. */
CROSSDOCK_API void crossdock_queue_release(crossdock_queue** queue);

/** Returns the queue of the device's interface: a `cudaStream_t`, a `sycl::queue*`; NULL for the host's queue. It is
 * valid until the handle is released. */
CROSSDOCK_API void* crossdock_queue_native(const crossdock_queue* queue);
/** Returns the native context that it belongs to (a `CUcontext`, a `sycl::context*`); NULL if that is its device's
 * usual one. */
CROSSDOCK_API void* crossdock_queue_native_context(const crossdock_queue* queue);
/** Returns the type of its device (ARROW_DEVICE_...); 0 for NULL. */
CROSSDOCK_API ArrowDeviceType crossdock_queue_device_type(const crossdock_queue* queue);
/** Returns the number of its device among those of its type; -1 for NULL, and for the host. */
CROSSDOCK_API int64_t crossdock_queue_device_id(const crossdock_queue* queue);
/** Returns the filter string with all its parts that names its device, as in "host:cpu:0". It ends with a NUL byte, and
 * is valid until the handle is released. Empty for NULL, and if there is none. */
CROSSDOCK_API const char* crossdock_queue_filter(const crossdock_queue* queue);
/** Returns 1 if both are the same queue, else 0, also if one is NULL. */
CROSSDOCK_API int32_t crossdock_queue_equal(const crossdock_queue* one, const crossdock_queue* other);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_QUEUE_H */
