/* Options that servers and clients have in common. */
#ifndef CROSSDOCK_C_API_OPTIONS_H
#define CROSSDOCK_C_API_OPTIONS_H

#include "crossdock/c_api/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a thread waits for the other end. */
#define CROSSDOCK_WAIT_AUTO 0  /**< spins for some tens of microseconds, then sleeps */
#define CROSSDOCK_WAIT_SPIN 1  /**< never sleeps: lowest latency, but uses a whole core */
#define CROSSDOCK_WAIT_BLOCK 2 /**< sleeps at once */

/** Options of the transports. Set `size`, and see status.h. */
typedef struct crossdock_transport_options {
  size_t size; /**< bytes of this struct: `sizeof options` */
  /** Over networks (tcp, tcp+tls, ucx, fabric), a secret that both ends must know, 1 to 1024 bytes; a client also sends
   * it to a Flight server. Empty: none. Over shm the user id decides. */
  crossdock_string token;
  /** For tcp+tls, and for clients over grpc+tls: this end's certificate with those of its issuers, as texts in PEM
   * form. A server needs it; a client only if the server requires a certificate. Empty: none. */
  crossdock_string tls_certificate_chain;
  crossdock_string tls_private_key; /**< the key of that certificate in PEM form, not encrypted */
  crossdock_string tls_roots; /**< client: the issuers that it trusts, in PEM form; empty: those that OpenSSL trusts */
  crossdock_string tls_client_roots; /**< server: the issuers of clients' certificates, which are then required, in PEM
                                        form; empty: none is */
  crossdock_string tls_server_name;  /**< client: the name that the server's certificate must have; empty: the host */
  /** Over shm, the user ids that may connect (server), or whose servers are trusted (client), besides this process's
   * own. */
  const uint32_t* other_users;
  size_t n_other_users; /**< number of `other_users` */
  int64_t any_user;     /**< over shm, not 0: every user of this machine counts as one of `other_users` */
} crossdock_transport_options;

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_C_API_OPTIONS_H */
