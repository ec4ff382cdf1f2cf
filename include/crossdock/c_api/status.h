/* What every call of Crossdock's C interface has in common: status codes, texts, errors, and options.
 *
 * The interface is C99 and a library of its own, libcrossdock_c. These rules hold for all functions:
 * - A function that can fail returns a crossdock_status. Its last argument, `error`, gets the text; it may be NULL.
 * - The comment of a function names its errors. Every function may also return INVALID_ARGUMENT (a NULL where
 *   something is needed, a text or an array that is too long, a wrong `size`), RESOURCE (no memory left) and INTERNAL.
 * - A function writes its results to the addresses that it is given for them. If it fails, it clears all of these that
 *   aren't NULL, whichever argument was wrong: a handle becomes NULL, the `release` of an Arrow structure NULL, a
 *   number 0, and in a struct with a valid `size` all other members 0.
 * - What a function takes over (a stream, an array, a tensor, a source) it takes over on success alone, unless its
 *   comment says otherwise. On failure the caller still owns it, unchanged.
 * - A handle ends with its release function, which takes the address of the caller's pointer and sets it to NULL. So a
 *   second release of the same pointer does nothing. Copies of the pointer dangle. No other call may use the handle at
 *   that time or later.
 * - A NULL handle is CROSSDOCK_ERROR_INVALID_ARGUMENT where a status is returned; otherwise the result is 0 or NULL.
 * - No C++ exception leaves a function. Callbacks must not throw, must not longjmp() out, and must not end the thread.
 *   A thread must not be cancelled (pthread_cancel()) inside a call.
 * - After fork() the child must not use handles of the parent, except to release them: a call that would use one is
 *   CROSSDOCK_ERROR_FORK, also a close. */
#ifndef CROSSDOCK_C_API_STATUS_H
#define CROSSDOCK_C_API_STATUS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Marks the functions that libcrossdock_c exports. All begin with `crossdock_`. */
#define CROSSDOCK_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/** The outcome of a call. The numbers are those of crossdock::ErrorCode (crossdock/core/error.h), which says what each
 * means; they stay the same, and are never used again for something else. A later version may return others. */
typedef int32_t crossdock_status;

#define CROSSDOCK_OK 0 /**< The call did what it is for. */
#define CROSSDOCK_ERROR_INVALID_ARGUMENT 1
#define CROSSDOCK_ERROR_URI 2
#define CROSSDOCK_ERROR_SCHEME 3
#define CROSSDOCK_ERROR_NOT_FOUND 4
#define CROSSDOCK_ERROR_UNSUPPORTED_TYPE 5
#define CROSSDOCK_ERROR_INVALID_DATA 6
#define CROSSDOCK_ERROR_PROTOCOL 7
#define CROSSDOCK_ERROR_HANDSHAKE 8
#define CROSSDOCK_ERROR_TRUNCATED_STREAM 9
#define CROSSDOCK_ERROR_FILE_CHANGED 10
#define CROSSDOCK_ERROR_ARENA_FROZEN 11
#define CROSSDOCK_ERROR_FORK 12
#define CROSSDOCK_ERROR_LEASE_LIMIT 13
#define CROSSDOCK_ERROR_TIMEOUT 14
#define CROSSDOCK_ERROR_CLOSED 15
#define CROSSDOCK_ERROR_PERMISSION 16
#define CROSSDOCK_ERROR_RESOURCE 17
#define CROSSDOCK_ERROR_SYSTEM 18
#define CROSSDOCK_ERROR_INTERRUPTED 19
#define CROSSDOCK_ERROR_CONSUMED 20
#define CROSSDOCK_ERROR_CONNECTION 21
#define CROSSDOCK_ERROR_REMOTE 22
#define CROSSDOCK_ERROR_STREAM_BUSY 23
#define CROSSDOCK_ERROR_UNSUPPORTED 24
#define CROSSDOCK_ERROR_EXPORT 25
#define CROSSDOCK_ERROR_EXECUTION_PLACEMENT 26
#define CROSSDOCK_ERROR_UPSTREAM 27
/* Codes of the C interface alone begin at 1000. */
#define CROSSDOCK_ERROR_INTERNAL 1000 /**< an exception that isn't Crossdock's: a defect of the library */

/** Returns a code's name, as in "NotFoundError"; "Error" for a number that this version doesn't know. */
CROSSDOCK_API const char* crossdock_status_name(crossdock_status status);

/** Returns the version of the library that runs, as in "0.1.0". Lives as long as the library is loaded. */
CROSSDOCK_API const char* crossdock_version(void);

/** Text, or the bytes of a name: `size` bytes without a NUL byte at the end. `data` may be NULL if `size` is 0. As an
 * argument it is read during the call alone; at most 1 MiB. */
typedef struct crossdock_string {
  const char* data; /**< need not end with a NUL byte; may be NULL if `size` is 0 */
  size_t size;      /**< bytes */
} crossdock_string;

/** Returns a view of a text that ends with a NUL byte; an empty one for NULL. */
static inline crossdock_string crossdock_str(const char* text) {
  crossdock_string view;
  view.data = text;
  view.size = text != NULL ? strlen(text) : 0;
  return view;
}

/** What went wrong in a call. Begin with `crossdock_error* error = NULL` and pass `&error`. A call that fails makes the
 * object if `error` is NULL, and otherwise writes to the object that is there, so one object serves any number of
 * calls. A call that succeeds doesn't touch it. One thread at a time may use it. If there is no memory for it, it is
 * an object that says so. */
typedef struct crossdock_error crossdock_error;

/** Frees the error and sets `*error` to NULL. Does nothing if `error` or `*error` is NULL. */
CROSSDOCK_API void crossdock_error_release(crossdock_error** error);
/** Returns the status of the call that failed; CROSSDOCK_OK for NULL. */
CROSSDOCK_API crossdock_status crossdock_error_status(const crossdock_error* error);
/** Returns the text: what was wrong, where, and what to do. It quotes at most 200 bytes of a name, a URI or another
 * text, 1024 of a file's path and 4096 of another's error text, and says how long a text was that it cut. Bytes that
 * can't be printed are written in hexadecimal. The error text of a stream of yours stays as it is, and may have several
 * lines. It ends with a NUL byte, and is valid until the object is written to again or released. Empty for NULL. */
CROSSDOCK_API const char* crossdock_error_message(const crossdock_error* error);
/** Returns the name of the function that failed, as in "crossdock_client_get". Lives as long as the library is loaded.
 * Empty for NULL, and for an error that crossdock_error_set() wrote. */
CROSSDOCK_API const char* crossdock_error_call(const crossdock_error* error);
/** Returns the errno of the system call, or of the callback, that failed; 0 if none did. */
CROSSDOCK_API int32_t crossdock_error_errno(const crossdock_error* error);
/** Writes an error, for callbacks that report one. Returns `status`, so that a callback can end with it. */
CROSSDOCK_API crossdock_status crossdock_error_set(crossdock_error** error, crossdock_status status,
                                                   crossdock_string message);

/* Structs of options: set `size` to the size of the struct, and every other member to 0, as in
 *
 *     crossdock_get_options options = {.size = sizeof options};
 *
 * 0 means the default, which each member's comment says. NULL instead of a struct means the defaults of all members.
 * Structs of ours that are passed in arrays have their size, too: the same in every element of one array.
 *
 * Later versions add members at the end. A library that is older than the caller's header accepts the longer struct if
 * the members that it doesn't know are 0, and otherwise returns CROSSDOCK_ERROR_UNSUPPORTED. Booleans are int32_t, or
 * int64_t where a struct would else have padding: 0 or not. Arrays have at most 1,048,576 elements.
 *
 * Times, also those that are arguments, are in milliseconds; negative: without limit. More than 2,147,483,647, nearly
 * 25 days, counts as 2,147,483,647. */

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_STATUS_H */
