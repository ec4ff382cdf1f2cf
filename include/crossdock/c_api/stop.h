/* Ends calls that block, from another thread or from a signal handler. */
#ifndef CROSSDOCK_C_API_STOP_H
#define CROSSDOCK_C_API_STOP_H

#include "crossdock/c_api/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A flag that the blocking calls of servers, clients and readers look at, if it is in their options. Once it is set,
 * each of them returns CROSSDOCK_ERROR_INTERRUPTED: a call under way at once if the signal that set it came to its
 * thread, otherwise within 0.1 s; a later call when it would wait. It stays set until it is cleared.
 *
 * All functions but the release function are thread-safe. Servers, clients and readers share the flag: the handle may
 * be released before they are. */
typedef struct crossdock_stop crossdock_stop;

/** Makes a flag that isn't set. */
CROSSDOCK_API crossdock_status crossdock_stop_new(crossdock_stop** stop, crossdock_error** error);
/** Frees the handle and sets `*stop` to NULL. Does nothing if `stop` or `*stop` is NULL. */
CROSSDOCK_API void crossdock_stop_release(crossdock_stop** stop);
/** Sets the flag. May be called in a signal handler. Does nothing for NULL. */
CROSSDOCK_API void crossdock_stop_set(crossdock_stop* stop);
/** Clears the flag. Does nothing for NULL. */
CROSSDOCK_API void crossdock_stop_clear(crossdock_stop* stop);
/** Returns 1 if the flag is set, else 0; 0 for NULL. May be called in a signal handler. */
CROSSDOCK_API int32_t crossdock_stop_is_set(const crossdock_stop* stop);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_STOP_H */
