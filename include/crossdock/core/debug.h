#pragma once

#include "crossdock/core/export.h"

namespace crossdock {

/// Installs handlers of SIGSEGV and SIGBUS that explain on stderr a fault in Crossdock's memory, before the signal has
/// its usual effect:
/// - a write into read-only memory: the region and its origin, the address, and the calls that make a writable copy;
/// - a read beyond the end of a file that was cut short while it was mapped: which file.
/// Then the previous handler is called, or the default action follows, so that the process still dies by the signal,
/// with a core dump if core dumps are enabled. Faults in other memory, and signals that a program sends, are passed on
/// unchanged. All mappings are known, including those made before this call.
///
/// The handler calls async-signal-safe functions only. It works on every thread, and runs on the thread's alternative
/// signal stack if there is one. If the calling thread has none, it gets one for as long as it lives.
///
/// Idempotent, thread-safe. If another handler was installed since, a further call installs this one on top of it.
/// Throws SystemError.
CROSSDOCK_EXPORT void report_faults();

/// Restores the handlers that were installed before report_faults(). If another handler was installed since, it may
/// call ours; then ours stays installed and only passes signals on. Idempotent, thread-safe. Throws SystemError.
CROSSDOCK_EXPORT void stop_reporting_faults();

}  // namespace crossdock
