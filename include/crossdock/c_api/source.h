/* What a server publishes. */
#ifndef CROSSDOCK_C_API_SOURCE_H
#define CROSSDOCK_C_API_SOURCE_H

#include "crossdock/array/c_abi.h"
#include "crossdock/array/dlpack_abi.h"
#include "crossdock/c_api/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Data to be published under a name, once: crossdock_server_publish() consumes it. One thread at a time may use it.
 * Callbacks of the streams, arrays and tensors in it are called by the thread that publishes or releases it, and, for
 * live streams and factories, by the server's own threads. The callbacks of one stream, and of the arrays that it gave,
 * are called by one thread at a time, but not always the same. The streams that a factory makes are independent:
 * several threads may call their callbacks at once. */
typedef struct crossdock_source crossdock_source;

/** Frees a source that wasn't published, with what it has taken over, and sets `*source` to NULL. Does nothing if
 * `source` or `*source` is NULL. */
CROSSDOCK_API void crossdock_source_release(crossdock_source** source);

/** A table: all batches of a stream. They are read when the source is published, and all consumers get the same memory.
 * Each buffer is copied once, from a device's memory too. Takes `*stream` over, marks it released, and reads its schema
 * at once. Errors: INVALID_ARGUMENT (a stream that is released), INVALID_DATA, UNSUPPORTED_TYPE, and what the
 * producer's callback reports. */
CROSSDOCK_API crossdock_status crossdock_source_table(struct ArrowArrayStream* stream, crossdock_source** source,
                                                      crossdock_error** error);
/** The same for the device form of the stream, whose batches may be on any device that has a driver here. */
CROSSDOCK_API crossdock_status crossdock_source_device_table(struct ArrowDeviceArrayStream* stream,
                                                             crossdock_source** source, crossdock_error** error);

/** A table of batches that are there: `n` struct arrays of `schema` in host memory. Takes over the arrays, and marks
 * them released; reads `schema`, which the caller keeps. The arrays are checked when the source is published. Errors:
 * INVALID_ARGUMENT (an array or the schema is released), INVALID_DATA, UNSUPPORTED_TYPE. */
CROSSDOCK_API crossdock_status crossdock_source_batches(const struct ArrowSchema* schema, struct ArrowArray* batches,
                                                        size_t n, crossdock_source** source, crossdock_error** error);

/** A live stream, which is read once: the first consumer gets it, batch by batch as batches arrive, and a second one
 * gets CROSSDOCK_ERROR_CONSUMED. The stream is read, and released, on the server's own threads. Ownership and errors
 * are those of crossdock_source_table(). */
CROSSDOCK_API crossdock_status crossdock_source_live(struct ArrowArrayStream* stream, crossdock_source** source,
                                                     crossdock_error** error);
/** The same for the device form of the stream. A batch on a device is copied to the host before it is sent. */
CROSSDOCK_API crossdock_status crossdock_source_device_live(struct ArrowDeviceArrayStream* stream,
                                                            crossdock_source** source, crossdock_error** error);

/** Makes a stream for one consumer, in `*out`. Called on the server's own threads, also on several at once. On failure
 * returns a status other than CROSSDOCK_OK, leaves `*out` released, and may write the text with crossdock_error_set().
 * The consumer gets the text, with the status NOT_FOUND, UNSUPPORTED_TYPE, INVALID_DATA, PROTOCOL, FILE_CHANGED,
 * LEASE_LIMIT, CLOSED, PERMISSION, RESOURCE, CONSUMED, UNSUPPORTED or UPSTREAM if it is that one, else REMOTE: other
 * errors are the server's own. */
typedef crossdock_status (*crossdock_make_stream)(void* user, struct ArrowArrayStream* out, crossdock_error** error);

/** A live stream for each consumer: `make` is called for each. On success, `release` (NULL: nothing) is called with
 * `user` once, on any thread, when no call of `make` can follow. On failure it isn't called. Error: INVALID_ARGUMENT
 * (`make` is NULL). */
CROSSDOCK_API crossdock_status crossdock_source_factory(crossdock_make_stream make, void (*release)(void* user),
                                                        void* user, crossdock_source** source, crossdock_error** error);

#define CROSSDOCK_FILE_TRUST 0    /**< passes the file's descriptor: nothing is copied; nobody may change the file */
#define CROSSDOCK_FILE_SNAPSHOT 1 /**< copies the file once, when it is published */

/** An Arrow IPC file or stream file. It is opened when the source is published, so a file that can't be read is an
 * error then. Error: INVALID_ARGUMENT (another `stability`, or a `path` with a NUL byte). */
CROSSDOCK_API crossdock_status crossdock_source_file(crossdock_string path, int32_t stability,
                                                     crossdock_source** source, crossdock_error** error);

/** One tensor, on any device. The work that writes its memory must be over. Its elements are copied once, when the
 * source is published. Takes `tensor` over, and calls its deleter later. Errors: INVALID_ARGUMENT, INVALID_DATA,
 * UNSUPPORTED_TYPE. */
CROSSDOCK_API crossdock_status crossdock_source_tensor(struct DLManagedTensorVersioned* tensor,
                                                       crossdock_source** source, crossdock_error** error);

/** A tensor of several, and where it is among them: `n_keys` keys, outermost first, each in UTF-8. Set `size`, and see
 * status.h. */
typedef struct crossdock_named_tensor {
  size_t size;                             /**< bytes of this struct: `sizeof *tensors` */
  const crossdock_string* keys;            /**< outermost first, each in UTF-8; read during the call */
  size_t n_keys;                           /**< number of `keys`; at least 1 */
  struct DLManagedTensorVersioned* tensor; /**< as of crossdock_source_tensor() */
} crossdock_named_tensor;

/** Several tensors under one name. Their paths all differ, none is empty, and none is the beginning of another; that is
 * checked when the source is published. Takes all tensors over, or none. Errors: INVALID_ARGUMENT (a tensor is NULL, or
 * is there twice; sizes differ), INVALID_DATA, UNSUPPORTED_TYPE. */
CROSSDOCK_API crossdock_status crossdock_source_tensors(const crossdock_named_tensor* tensors, size_t n,
                                                        crossdock_source** source, crossdock_error** error);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_SOURCE_H */
