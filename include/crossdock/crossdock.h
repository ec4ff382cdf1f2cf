/* Crossdock in C: serve tables and tensors, and get them. Includes all of the C interface; docs/how-to/c.md is the
 * guide. Link with libcrossdock_c (CMake: crossdock::c; pkg-config: crossdock_c). */
#ifndef CROSSDOCK_CROSSDOCK_H
#define CROSSDOCK_CROSSDOCK_H

#include "crossdock/c_api/client.h"
#include "crossdock/c_api/options.h"
#include "crossdock/c_api/queue.h"
#include "crossdock/c_api/reader.h"
#include "crossdock/c_api/server.h"
#include "crossdock/c_api/source.h"
#include "crossdock/c_api/status.h"
#include "crossdock/c_api/stop.h"
#include "crossdock/c_api/tensor.h"

#endif /* CROSSDOCK_CROSSDOCK_H */
