#pragma once

#include <memory>

#include "crossdock/core/log.h"

namespace crossdock::transport::ucx {

/// Adds a receiver of UCX's log lines, of all contexts in the process: UCX doesn't say whose a line is. Lines that
/// nobody receives are dropped. `log` is called on any thread, also on a thread of UCX's own, which may hold locks of
/// UCX: it must call nothing of this transport. Dropping the result ends it; a call on another thread may still be
/// under way. Thread-safe.
std::shared_ptr<const void> add_log_sink(LogCallback log);

/// Passes a line on to all receivers. An exception of theirs ends there.
void log_line(LogLevel level, std::string_view line) noexcept;

}  // namespace crossdock::transport::ucx
