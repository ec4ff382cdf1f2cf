/* A client: lists what a server has published, and gets it. */
#ifndef CROSSDOCK_C_API_CLIENT_H
#define CROSSDOCK_C_API_CLIENT_H

#include "crossdock/array/c_abi.h"
#include "crossdock/c_api/options.h"
#include "crossdock/c_api/status.h"
#include "crossdock/c_api/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A connection to a server, without a thread of its own: all work is done by the calling threads. All functions but
 * the release function are thread-safe. What was read may outlive the client. */
typedef struct crossdock_client crossdock_client;

/** Options of crossdock_connect(). Set `size`, and see status.h. */
typedef struct crossdock_client_options {
  size_t size;                                   /**< bytes of this struct: `sizeof options` */
  const crossdock_transport_options* transports; /**< read during the call; NULL: the defaults */
  crossdock_stop* stop; /**< ends the blocking calls of the client and its readers; NULL: nothing does */
  int64_t timeout_ms;   /**< for connecting, and for each answer to a request; 0: 10,000; negative: without limit */
} crossdock_client_options;

/** Connects to a server at "shm:flights", "tcp://host:7700", or to a Flight server at "grpc://host:8815". `options` may
 * be NULL. Errors: URI, SCHEME, CONNECTION (also: no server at this address), PERMISSION, HANDSHAKE, TIMEOUT,
 * INTERRUPTED, INVALID_ARGUMENT. */
CROSSDOCK_API crossdock_status crossdock_connect(crossdock_string uri, const crossdock_client_options* options,
                                                 crossdock_client** client, crossdock_error** error);
/** Closes the client, frees it and sets `*client` to NULL. Does nothing if `client` or `*client` is NULL. */
CROSSDOCK_API void crossdock_client_release(crossdock_client** client);
/** Starts no new streams from now on: later requests return CROSSDOCK_ERROR_CLOSED. Readers that exist go on. A second
 * close succeeds. Error: FORK. */
CROSSDOCK_API crossdock_status crossdock_client_close(crossdock_client* client, crossdock_error** error);

/** A server's catalog, as it was when it was read. Immutable: several threads may use it. */
typedef struct crossdock_catalog crossdock_catalog;

/** Reads the catalog. Errors: RESOURCE (more than 1,048,576 entries, or 256 MiB), INVALID_DATA, CLOSED, CONNECTION,
 * TIMEOUT, INTERRUPTED, FORK. */
CROSSDOCK_API crossdock_status crossdock_client_list(crossdock_client* client, crossdock_catalog** catalog,
                                                     crossdock_error** error);
/** Frees the catalog and sets `*catalog` to NULL. Does nothing if `catalog` or `*catalog` is NULL. */
CROSSDOCK_API void crossdock_catalog_release(crossdock_catalog** catalog);
/** Returns the number of entries; 0 for NULL. */
CROSSDOCK_API size_t crossdock_catalog_size(const crossdock_catalog* catalog);

#define CROSSDOCK_KIND_TABLE 1   /**< a table, a file or a live stream: for crossdock_client_get() */
#define CROSSDOCK_KIND_TENSOR 2  /**< for crossdock_client_get_tensor() */
#define CROSSDOCK_KIND_TENSORS 3 /**< for crossdock_client_get_tensors() */
#define CROSSDOCK_KIND_FACTORY 4 /**< a table whose schema is known once somebody gets it */

/** One entry of a catalog. Set `size` before the call: nothing beyond it is written. Members that the library doesn't
 * know become 0. For a wrong `size` nothing is written. */
typedef struct crossdock_entry {
  size_t size;           /**< bytes of this struct: `sizeof entry` */
  crossdock_string name; /**< as it was published; valid until the catalog is released */
  int64_t rows;          /**< -1: not known, or tensors */
  int64_t bytes;         /**< -1: not known */
  /** Two versions of a name that are equal, and not -1, are of the same data. -1: a live stream or a factory. */
  int64_t version;
  int64_t kind; /**< CROSSDOCK_KIND_...; a later version may have others */
} crossdock_entry;

/** Writes the entry at `index`. Error: INVALID_ARGUMENT (no such entry, or a wrong `size`). */
CROSSDOCK_API crossdock_status crossdock_catalog_entry(const crossdock_catalog* catalog, size_t index,
                                                       crossdock_entry* entry, crossdock_error** error);
/** Writes the schema of the entry at `index`, which the caller owns and releases. Errors: INVALID_ARGUMENT (no such
 * entry), UNSUPPORTED (a factory, or tensors, have none), INVALID_DATA (a name with a NUL byte). */
CROSSDOCK_API crossdock_status crossdock_catalog_schema(const crossdock_catalog* catalog, size_t index,
                                                        struct ArrowSchema* schema, crossdock_error** error);

/** A stream of batches; see reader.h. */
typedef struct crossdock_reader crossdock_reader;

/* How thoroughly received data is checked. */
#define CROSSDOCK_VALIDATION_AUTO 0      /**< in full if it comes from another user or another machine */
#define CROSSDOCK_VALIDATION_STRUCTURE 1 /**< lengths, counts and sizes */
#define CROSSDOCK_VALIDATION_FULL 2      /**< every element */

/** Options of crossdock_client_get(). Set `size`, and see status.h. */
typedef struct crossdock_get_options {
  size_t size;                     /**< bytes of this struct: `sizeof options` */
  const crossdock_string* columns; /**< top-level columns to keep, in this order; NULL: all; not NULL and none: none */
  size_t n_columns;                /**< number of `columns` */
  uint64_t first_row;              /**< of a table: the rows from here on */
  uint64_t n_rows;                 /**< of a table: so many rows; 0: all */
  int64_t timeout_ms;              /**< limits the wait for each batch; 0 or negative: without limit */
  int64_t device_id;               /**< number of the device among those of `device_type`; ignored for the host */
  ArrowDeviceType device_type;     /**< ARROW_DEVICE_...: where batches are wanted; 0: the host */
  int32_t wait;                    /**< CROSSDOCK_WAIT_...: how the calling thread waits for each batch */
  int32_t validation;              /**< CROSSDOCK_VALIDATION_...: how thoroughly each batch is checked */
  int32_t copy_on_write; /**< not 0: the caller may write to batches on the host, on private copies of pages */
} crossdock_get_options;

/** Requests what is published as `name`. Returns once the schema has arrived. `options` may be NULL. Errors: NOT_FOUND
 * (no such name, or no such column: the text lists those that exist), CONSUMED, INVALID_ARGUMENT (tensors are published
 * there; a name of two columns), UNSUPPORTED (rows of what isn't a table; a device without a driver), UNSUPPORTED_TYPE,
 * INVALID_DATA, PROTOCOL, CLOSED, CONNECTION, REMOTE, LEASE_LIMIT, TIMEOUT, INTERRUPTED, FORK. */
CROSSDOCK_API crossdock_status crossdock_client_get(crossdock_client* client, crossdock_string name,
                                                    const crossdock_get_options* options, crossdock_reader** reader,
                                                    crossdock_error** error);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_CLIENT_H */
