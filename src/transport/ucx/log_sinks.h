#pragma once

#include "core/log_sinks.h"

namespace crossdock::transport::ucx {

/// The receivers of UCX's log lines, of all contexts in the process.
LogSinks& log_sinks();

}  // namespace crossdock::transport::ucx
