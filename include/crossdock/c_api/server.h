/* A server: publishes tables and tensors under names. */
#ifndef CROSSDOCK_C_API_SERVER_H
#define CROSSDOCK_C_API_SERVER_H

#include "crossdock/c_api/options.h"
#include "crossdock/c_api/source.h"
#include "crossdock/c_api/status.h"
#include "crossdock/c_api/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Serves what is published, on threads of its own. All functions but the release function are thread-safe. */
typedef struct crossdock_server crossdock_server;

#define CROSSDOCK_LOG_DEBUG 10   /**< details, for the search for a fault */
#define CROSSDOCK_LOG_INFO 20    /**< ordinary events, such as a request that was refused */
#define CROSSDOCK_LOG_WARNING 30 /**< a peer that broke the rules, a stream that failed */
#define CROSSDOCK_LOG_ERROR 40   /**< work that the server itself can't do */

/** Receives a log line; the library itself never prints. `text` is valid during the call. Called on any thread of the
 * server, also on several at once. It must not call back into the server. */
typedef void (*crossdock_log)(void* user, int32_t level, crossdock_string text);

/** Options of crossdock_serve(). Set `size`, and see status.h. */
typedef struct crossdock_server_options {
  size_t size; /**< bytes of this struct: `sizeof options` */
  /** Where to listen: addresses such as "shm:flights", "shm:" (picks a name), "tcp:" (a port of the loopback
   * interface), "tcp://10.0.0.7:7700". None: "shm:". */
  const crossdock_string* uris;
  size_t n_uris;                                 /**< number of `uris` */
  const crossdock_transport_options* transports; /**< read during the call; NULL: the defaults */
  crossdock_log log;                             /**< NULL: log lines are dropped */
  void* log_user;                                /**< passed to `log`; must live until the server is released */
  crossdock_stop* stop; /**< ends crossdock_server_drain() and crossdock_server_close(); NULL: nothing does */
  uint64_t lease_limit; /**< bytes of live streams' memory that one consumer may hold; 0: 1 GiB */
  uint64_t max_leases;  /**< buffers that a connection may hold when it requests another stream; 0: 1,048,576 */
  /** After this time, a consumer that is at `lease_limit` and frees nothing is sent copies. 0: 10 ms; negative: never;
   * the shortest time is 1. */
  int64_t lease_patience_ms;
  uint32_t window;          /**< messages that a consumer may lag behind; 0: 64 */
  uint32_t max_streams;     /**< streams that one consumer may have at once; 0: 1024 */
  uint32_t source_threads;  /**< threads that read live sources; 0: 64 */
  uint32_t max_connections; /**< over all addresses; 0: 1024; UINT32_MAX: in effect without limit */
  int32_t wait;             /**< CROSSDOCK_WAIT_...: how the server's thread waits */
  int32_t stats_for_all;    /**< not 0: every client may ask for the statistics */
} crossdock_server_options;

/** Starts a server, which listens when the call returns. `options` may be NULL. Errors: URI, SCHEME, NOT_FOUND (the
 * folder of a path), CONNECTION (the address is taken), PERMISSION, RESOURCE, INVALID_ARGUMENT. */
CROSSDOCK_API crossdock_status crossdock_serve(const crossdock_server_options* options, crossdock_server** server,
                                               crossdock_error** error);

/** Closes the server, frees it and sets `*server` to NULL. Waits until its threads have returned from the callbacks of
 * live sources: never call it in such a callback. Does nothing if `server` or `*server` is NULL. */
CROSSDOCK_API void crossdock_server_release(crossdock_server** server);

/** Returns the number of addresses; 0 for NULL. */
CROSSDOCK_API size_t crossdock_server_n_uris(const crossdock_server* server);
/** Returns the URI to connect to, for the address at `index`. It ends with a NUL byte, and is valid until the server is
 * released. NULL if there is no such address. */
CROSSDOCK_API const char* crossdock_server_uri(const crossdock_server* server, size_t index);

/** Options of crossdock_server_publish(). Set `size`, and see status.h. */
typedef struct crossdock_publish_options {
  size_t size; /**< bytes of this struct: `sizeof options` */
  /** Of a table, a file or tensors: withdraws the name by itself once so many streams of it have begun; 0: it stays. */
  uint64_t times;
  /** Not 0: takes the place of what the name has, in one atomic step. Streams under way go on with the old source. */
  int64_t replace;
} crossdock_publish_options;

/** Publishes a source under a name, which may have any bytes and isn't empty. A table, a file or tensors are read
 * completely before the name becomes visible. Consumes `*source` and sets it to NULL, on failure too, unless `server`,
 * `source` or `*source` is NULL. On failure nothing was published and nothing replaced.
 *
 * Errors: INVALID_ARGUMENT (a name that is taken, without `replace`; `times` for a live stream; a stream without a
 * schema; wrong paths of tensors), INVALID_DATA, UNSUPPORTED_TYPE, NOT_FOUND and PERMISSION (files), FILE_CHANGED,
 * RESOURCE, UNSUPPORTED (memory of a device without a driver), CLOSED, and those of the source's callbacks. */
CROSSDOCK_API crossdock_status crossdock_server_publish(crossdock_server* server, crossdock_string name,
                                                        crossdock_source** source,
                                                        const crossdock_publish_options* options,
                                                        crossdock_error** error);

/** A source and the name to publish it under. Set `size`, and see status.h. */
typedef struct crossdock_publication {
  size_t size;               /**< bytes of this struct: `sizeof *publications` */
  crossdock_string name;     /**< any bytes, not empty; all names of one update differ */
  crossdock_source** source; /**< the caller's pointer, which is set to NULL when the source is consumed */
} crossdock_publication;

/** Publishes `n` sources and withdraws the names `withdrawn`, in one atomic step: every consumer sees all of these
 * changes or none. Consumes all sources, as crossdock_server_publish() does; none of them if an argument is wrong in
 * itself (a pointer is NULL, a source is there twice, a size is wrong, or there are more elements than an array may
 * have). `options` hold for all of them. On failure nothing has changed. Errors: those of crossdock_server_publish(),
 * and NOT_FOUND (a name to withdraw that isn't published). */
CROSSDOCK_API crossdock_status crossdock_server_update(crossdock_server* server,
                                                       const crossdock_publication* publications, size_t n,
                                                       const crossdock_string* withdrawn, size_t n_withdrawn,
                                                       const crossdock_publish_options* options,
                                                       crossdock_error** error);

/** Removes a name: new requests don't find it. Streams under way go on, and batches that consumers hold stay valid.
 * Errors: NOT_FOUND, CLOSED. */
CROSSDOCK_API crossdock_status crossdock_server_withdraw(crossdock_server* server, crossdock_string name,
                                                         crossdock_error** error);

/** Refuses new requests from now on, and waits until the streams under way have ended, for `timeout_ms` at most;
 * negative: without limit. `*drained` (NULL: not needed) is set to 1 if they have, else to 0. Closes nothing. Errors:
 * INTERRUPTED, CLOSED, INVALID_ARGUMENT (called without limit by a source, for which it would wait). */
CROSSDOCK_API crossdock_status crossdock_server_drain(crossdock_server* server, int64_t timeout_ms, int32_t* drained,
                                                      crossdock_error** error);

/** Ends every stream with an error at its consumer, stops listening, and joins the threads. Batches that consumers hold
 * stay valid. Later calls that need the server return CROSSDOCK_ERROR_CLOSED; a second close succeeds. Errors:
 * INTERRUPTED (a live source is still in its callback: the next close or release waits for it), INVALID_ARGUMENT
 * (called by a source for which it would wait). */
CROSSDOCK_API crossdock_status crossdock_server_close(crossdock_server* server, crossdock_error** error);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_SERVER_H */
