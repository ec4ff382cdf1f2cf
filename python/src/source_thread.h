#pragma once

#include <nanobind/nanobind.h>

/// The server's threads that run Python sources. Each has one Python thread state, from its first source until the
/// thread ends. A state per call would cost time and be dangerous with os.fork(): Python links new states into its list
/// without the GIL, and a child that is forked meanwhile may get an inconsistent list.
namespace crossdock::python {

/// Marks the calling thread as a server's own thread that runs Python sources, and makes a thread state for it if it
/// has none. Call it before the thread takes the GIL for the first time. Don't call it on other threads: a thread with
/// a state takes the GIL when it ends, and its owner may join it with the GIL held. Doesn't need the GIL.
void mark_source_thread() noexcept;
/// Returns true on a thread that called mark_source_thread().
bool is_source_thread() noexcept;

/// Raises KeyboardInterrupt in the Python code that these threads run: where it is next between two byte codes, so not
/// in one that waits in C code. Needs the GIL.
void interrupt_source_threads() noexcept;

/// Registers hooks so that os.fork() waits, without the GIL, for threads that are making their thread state, and such
/// threads wait for forks. Throws nb::python_error.
void register_source_threads_at_fork(nanobind::module_& module);

}  // namespace crossdock::python
