/* A stream of batches that a client gets. */
#ifndef CROSSDOCK_C_API_READER_H
#define CROSSDOCK_C_API_READER_H

#include "crossdock/array/c_abi.h"
#include "crossdock/c_api/client.h"
#include "crossdock/c_api/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A crossdock_reader is used by one thread at a time. Its batches may outlive it, its client and the server, and may be
 * released on any thread.
 *
 * After TIMEOUT and INTERRUPTED the next batch may be asked for again. A wrong call reads nothing, so the stream goes
 * on: one with a NULL (INVALID_ARGUMENT), or crossdock_reader_next() for batches on a device (UNSUPPORTED), where
 * crossdock_reader_next_device() then works. A batch for which there was no memory to hand it over (RESOURCE) is handed
 * over by the next call. Any other error ends the stream: each later call for a batch returns the same error.
 *
 * The memory of batches is read-only (crossdock_get_options.copy_on_write). Usually it is the server's: a batch that is
 * held keeps that memory, so release what isn't needed. */

/** Ends the stream if it isn't over, frees the reader and sets `*reader` to NULL. Does nothing if `reader` or `*reader`
 * is NULL. */
CROSSDOCK_API void crossdock_reader_release(crossdock_reader** reader);

/** Writes the schema of all batches, which the caller owns and releases. Error: INVALID_DATA (a name with a NUL byte,
 * which Arrow's structure can't have). */
CROSSDOCK_API crossdock_status crossdock_reader_schema(const crossdock_reader* reader, struct ArrowSchema* schema,
                                                       crossdock_error** error);

/** Waits for the next batch, and writes it as a struct array, which the caller owns and releases. At the end of the
 * stream, and on failure, `batch->release` is NULL. Errors: TRUNCATED_STREAM, LEASE_LIMIT, FILE_CHANGED, PROTOCOL,
 * INVALID_DATA, TIMEOUT, INTERRUPTED, REMOTE, CLOSED, FORK; UNSUPPORTED if the batches are on a device. */
CROSSDOCK_API crossdock_status crossdock_reader_next(crossdock_reader* reader, struct ArrowArray* batch,
                                                     crossdock_error** error);
/** The same for batches on any device. At the end of the stream, and on failure, `batch->array.release` is NULL. */
CROSSDOCK_API crossdock_status crossdock_reader_next_device(crossdock_reader* reader, struct ArrowDeviceArray* batch,
                                                            crossdock_error** error);

/** For event loops. Like crossdock_reader_next_device(), but never waits: `*arrived` is 0 if the next batch isn't there
 * yet, and 1 if `*batch` was written, also at the end of the stream.
 *
 * If it isn't there, call crossdock_reader_prepare_sleep(). If that sets `*sleep` to 1, wait until the descriptor is
 * readable, then call crossdock_reader_awake(). If it sets it to 0, don't wait. Then try again. */
CROSSDOCK_API crossdock_status crossdock_reader_try_next(crossdock_reader* reader, struct ArrowDeviceArray* batch,
                                                         int32_t* arrived, crossdock_error** error);
/** Prepares to wait for the descriptor: sets `*sleep` to 1, or to 0 if something has arrived in the meantime or the
 * stream has ended. See crossdock_reader_try_next(). Error: FORK. */
CROSSDOCK_API crossdock_status crossdock_reader_prepare_sleep(crossdock_reader* reader, int32_t* sleep,
                                                              crossdock_error** error);
/** Ends the wait that crossdock_reader_prepare_sleep() has prepared: the server needs to signal no more. Does nothing
 * after the end of the stream. Error: FORK. */
CROSSDOCK_API crossdock_status crossdock_reader_awake(crossdock_reader* reader, crossdock_error** error);
/** Returns the descriptor to wait for; -1 once the stream has ended, and for NULL. The reader owns it. */
CROSSDOCK_API int32_t crossdock_reader_descriptor(const crossdock_reader* reader);

/** Turns the reader into an Arrow stream, for libraries that read those. On success consumes `*reader` and sets it to
 * NULL; `stream` has what is left of the batches, and is released by the caller. Error: UNSUPPORTED if the batches are
 * on a device. */
CROSSDOCK_API crossdock_status crossdock_reader_to_stream(crossdock_reader** reader, struct ArrowArrayStream* stream,
                                                          crossdock_error** error);
/** The same in the device form, for batches on any device. */
CROSSDOCK_API crossdock_status crossdock_reader_to_device_stream(crossdock_reader** reader,
                                                                 struct ArrowDeviceArrayStream* stream,
                                                                 crossdock_error** error);

/** Returns the version of what is read, as crossdock_entry.version; -1 for NULL. */
CROSSDOCK_API int64_t crossdock_reader_version(const crossdock_reader* reader);

/** Ends the stream: later calls return CROSSDOCK_ERROR_CLOSED, unless the end was already reached. Batches that were
 * returned before stay valid. A second close succeeds. Error: FORK. */
CROSSDOCK_API crossdock_status crossdock_reader_close(crossdock_reader* reader, crossdock_error** error);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_READER_H */
