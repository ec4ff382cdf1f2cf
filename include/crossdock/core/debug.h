#pragma once

#include "crossdock/core/export.h"

namespace crossdock {

/// Installs handlers of SIGSEGV and SIGBUS that say on stderr what a fault in Crossdock's memory means, before the
/// signal takes its course:
/// - a write into read-only memory: the region and where it came from, the address, and the call that helps;
/// - a read beyond the end of a file that was cut short while it was mapped: which file.
/// Then the handler that was there before is called, or the default action follows, so that the process still dies by
/// the signal, with a core dump where those are on. Faults elsewhere, and signals that a program sends, are passed on
/// unchanged. All mappings are known, those made before included.
///
/// The handler calls async-signal-safe functions only. It works on every thread; it runs on the thread's alternative
/// signal stack where there is one. The calling thread gets one, if it has none, as long as it lives.
///
/// Idempotent, thread-safe. Called again after another handler took the place, it is installed on top of that one.
/// Throws SystemError.
CROSSDOCK_EXPORT void report_faults();

/// Puts back the handlers that were there before report_faults(). Where another one was installed since, which may call
/// ours, ours stays in its place and only passes signals on. Idempotent, thread-safe. Throws SystemError.
CROSSDOCK_EXPORT void stop_reporting_faults();

}  // namespace crossdock
