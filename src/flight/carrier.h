#pragma once

#include <stddef.h>
#include <stdint.h>

/* The boundary between Crossdock and the module that carries Flight's calls by gRPC (src/flight/grpc/, loaded at run
 * time). C types alone, so that the two share no C++ library, no allocator and no exception. The module knows nothing
 * of Flight: only calls, with bytes in and out.
 *
 * Threads: every function may be called from any thread, and none throws. Events come on the module's threads, and may
 * come inside a function that is called: hold no lock over a call. Events of one call may come beside each other, but
 * begin() returns before any other comes, and all others return before ended() comes. Bytes of an event are valid until
 * it returns, unless it says otherwise. */
#ifdef __cplusplus
extern "C" {
#endif

#define CROSSDOCK_CARRIER_VERSION 2
#define CROSSDOCK_CARRIER_SYMBOL "crossdock_carrier"

typedef struct {
  const void* data;
  size_t size;
} xd_bytes;

/* Bytes that are held until `drop` is called, once, on any thread. Without `drop` they are copied at once. */
typedef struct {
  const void* data;
  size_t size;
  void (*drop)(void* holder);
  void* holder;
} xd_slice;

/* A status by gRPC's numbers; 0 is success. */
typedef struct {
  int32_t code;
  xd_bytes message;
} xd_status;

/* One call. At a server it is valid from begin() until ended() returns; of a client, from call_start() until release(),
 * also after it has ended: then its functions do nothing but answer. */
typedef struct xd_call xd_call;
typedef struct xd_server xd_server;
typedef struct xd_channel xd_channel;
typedef struct xd_message xd_message; /* a message that was received */

/* What a call does. `data` is what begin() has returned, or what call_start() was given. */
typedef struct {
  /* The answer to one read(): a message of the other end, in parts. They are valid until drop_message(held), which is
   * due once, on any thread. */
  void (*message)(void* data, const xd_bytes* parts, size_t n_parts, xd_message* held);
  /* The answer to one read(): the other end sends nothing more, or the call can't receive it. */
  void (*last)(void* data);
  /* The answer to a write(): the message has left, or (`sent` is 0) the call can't send it any more. The next may be
   * written. */
  void (*written)(void* data, int32_t sent);
  /* The call can't succeed any more: the other end is gone, or has cancelled, or a deadline is over. */
  void (*cancelled)(void* data);
  /* Nothing follows, and the call is gone. `status`: at a client, the server's; at a server, without meaning.
   * `authorization`: at a client, this header of the answer, or empty. */
  void (*ended)(void* data, xd_status status, xd_bytes authorization);
} xd_call_events;

/* What the caller has said of a call. */
typedef struct {
  xd_bytes method;        /* the last part of its path: "DoGet" */
  xd_bytes authorization; /* its header of this name, or empty */
  xd_bytes auth_token;    /* its header auth-token-bin, or empty */
  xd_bytes peer;          /* gRPC's text for the other end: "ipv4:10.0.0.7:51112" */
} xd_caller;

/* Keys and certificates, in PEM. */
typedef struct {
  int32_t on;     /* 0: no TLS, and nothing else is looked at */
  xd_bytes roots; /* server: of clients' certificates, which are then required; client: of the server's, not empty */
  xd_bytes certificate_chain, private_key;
  xd_bytes server_name; /* client: the name that the server's certificate must have; empty: the host of the target */
} xd_tls;

typedef struct {
  uint32_t size;    /* of this struct: members beyond it are taken as 0 */
  xd_bytes address; /* "10.0.0.7:8815"; port 0: a free one */
  xd_tls tls;
  int64_t max_message; /* the longest message of a client, in bytes; longer ones end their call */
  /* A call has come. Returns its data, not null, and sets its events. */
  void* (*begin)(void* server_data, xd_call* call, const xd_caller* caller, xd_call_events* events);
  void* server_data;
} xd_server_options;

typedef struct {
  uint32_t size;
  xd_bytes target; /* "10.0.0.7:8815" */
  xd_tls tls;
  int64_t max_message; /* the longest message of the server, in bytes */
} xd_channel_options;

typedef struct {
  uint32_t version; /* CROSSDOCK_CARRIER_VERSION */
  const char* (*library_version)(void);
  /* Where gRPC's own messages go, of the whole process. `level`: 0 debug, 1 info, 2 error. Null: nowhere. */
  void (*set_log)(void (*log)(int32_t level, xd_bytes text));

  /* Listens. Returns null, and calls `failed` with the reason, if it can't. */
  xd_server* (*server_start)(const xd_server_options* options, int32_t* port, void (*failed)(void*, xd_bytes), void*);
  /* Stops listening, and cancels the calls that are under way after `patience_ms`. Waits until all have ended. Never on
   * a thread of the module. */
  void (*server_stop)(xd_server* server, int32_t patience_ms);

  /* Asks for the next message: one at a time, answered by message() or last(). */
  void (*read)(xd_call* call);
  void (*drop_message)(xd_message* held);
  /* Sends a message; takes the slices. One at a time, see written(). */
  void (*write)(xd_call* call, const xd_slice* parts, size_t n_parts);
  /* A server's end of a call: sends a last message, if there are parts, and the status. Once, after written().
   * `authorization`: a header of the answer, or empty. */
  void (*finish)(xd_call* call, const xd_slice* parts, size_t n_parts, xd_status status, xd_bytes authorization);
  /* A client's end of its messages. Once, after written(). */
  void (*writes_done)(xd_call* call);
  /* Ends the call as soon as possible, at either end. ended() follows; at a server, after finish(). */
  void (*cancel)(xd_call* call);

  xd_channel* (*channel_open)(const xd_channel_options* options);
  /* Its calls must have ended. */
  void (*channel_close)(xd_channel* channel);
  /* Starts a call. `path`: "/package.Service/Method". `deadline_ms`: from now; 0: none. */
  xd_call* (*call_start)(xd_channel* channel, xd_bytes path, xd_bytes authorization, int64_t deadline_ms,
                         const xd_call_events* events, void* data);
  /* For a client's call: nothing of it is called any more, and it is freed after ended(). */
  void (*release)(xd_call* call);
} xd_carrier;

/* The module's one exported symbol. Returns null for a version that it doesn't have. */
typedef const xd_carrier* (*xd_carrier_function)(uint32_t version);

#ifdef __cplusplus
}
#endif
