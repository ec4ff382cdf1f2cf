/* Tensors that a client gets. */
#ifndef CROSSDOCK_C_API_TENSOR_H
#define CROSSDOCK_C_API_TENSOR_H

#include "crossdock/array/c_abi.h"
#include "crossdock/array/dlpack_abi.h"
#include "crossdock/c_api/client.h"
#include "crossdock/c_api/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Options of the functions that get tensors. Set `size`, and see status.h. */
typedef struct crossdock_tensor_options {
  size_t size;                 /**< bytes of this struct: `sizeof options` */
  int64_t timeout_ms;          /**< limits the wait for each tensor; 0 or negative: without limit */
  int64_t device_id;           /**< number of the device among those of `device_type`; ignored for the host */
  ArrowDeviceType device_type; /**< ARROW_DEVICE_...: where tensors are wanted; 0: the host */
  int32_t wait;                /**< CROSSDOCK_WAIT_...: how the calling thread waits for each tensor */
  int64_t copy_on_write;       /**< not 0: the caller may write to tensors on the host, on private copies of pages */
} crossdock_tensor_options;

/** Gets the tensor that is published as `name`. `*tensor` is the caller's, who calls its deleter, on any thread. It may
 * outlive the client and the server. It is read-only, and flagged so, unless `copy_on_write` was set; nothing is
 * pending on it. Errors: those of crossdock_client_get(); INVALID_ARGUMENT if a table or several tensors are published
 * there; EXPORT if DLPack can't describe its elements. */
CROSSDOCK_API crossdock_status crossdock_client_get_tensor(crossdock_client* client, crossdock_string name,
                                                           const crossdock_tensor_options* options,
                                                           struct DLManagedTensorVersioned** tensor,
                                                           crossdock_error** error);

/** Gets the tensor into the caller's memory, which has its type and shape: with any strides on the host, in C order on
 * a device. A body that is sent by value is received straight into it; otherwise one copy is made. The memory is the
 * caller's throughout; if the call fails, it may have been written to in part. `options.device_type` must be 0.
 *
 * Errors: those of crossdock_client_get(); INVALID_ARGUMENT (a table, several tensors, or a tensor of another type or
 * shape is published there; a `device_type`); INVALID_DATA (the extents or the pointer of `into` are wrong, or the
 * server sends what isn't one tensor); UNSUPPORTED_TYPE (packed elements smaller than a byte). */
CROSSDOCK_API crossdock_status crossdock_client_get_tensor_into(crossdock_client* client, crossdock_string name,
                                                                const crossdock_tensor_options* options,
                                                                const DLTensor* into, crossdock_error** error);

/** Several tensors, each with its path. One thread at a time may use it. */
typedef struct crossdock_tensors crossdock_tensors;

/** Gets the tensors that are published under `name`, in the order in which they were published. Errors: as
 * crossdock_client_get_tensor(); RESOURCE (more than 1,048,576 tensors, or 64 MiB of paths). */
CROSSDOCK_API crossdock_status crossdock_client_get_tensors(crossdock_client* client, crossdock_string name,
                                                            const crossdock_tensor_options* options,
                                                            crossdock_tensors** tensors, crossdock_error** error);
/** Frees the tensors that weren't taken, and sets `*tensors` to NULL. Does nothing if `tensors` or `*tensors` is NULL.
 */
CROSSDOCK_API void crossdock_tensors_release(crossdock_tensors** tensors);
/** Returns the number of tensors; 0 for NULL. */
CROSSDOCK_API size_t crossdock_tensors_size(const crossdock_tensors* tensors);
/** Returns the number of keys in the path of the tensor at `index`; 0 if there is no such tensor. */
CROSSDOCK_API size_t crossdock_tensors_n_keys(const crossdock_tensors* tensors, size_t index);
/** Returns the key at `key`, the outermost first, valid until `tensors` is released; empty if there is no such key. */
CROSSDOCK_API crossdock_string crossdock_tensors_key(const crossdock_tensors* tensors, size_t index, size_t key);
/** Takes the tensor at `index` out, once: it is the caller's, as that of crossdock_client_get_tensor(). Errors:
 * INVALID_ARGUMENT (no such tensor), CONSUMED (it was taken), EXPORT. */
CROSSDOCK_API crossdock_status crossdock_tensors_take(crossdock_tensors* tensors, size_t index,
                                                      struct DLManagedTensorVersioned** tensor,
                                                      crossdock_error** error);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_TENSOR_H */
