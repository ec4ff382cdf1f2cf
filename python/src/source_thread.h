#pragma once

#include <nanobind/nanobind.h>

/// The server's threads that run Python sources. Python knows each of them by one thread state, from its first source
/// until it ends. A state for every call would cost time, and is dangerous beside os.fork(): Python links new states
/// into its list without the interpreter lock, and a child that is forked meanwhile can find the list half written.
namespace crossdock::python {

/// Says that the calling thread runs Python sources, and gives it its thread state. Called before it takes the lock for
/// the first time; nothing on a thread that Python knows already. Needs no lock.
void mark_source_thread() noexcept;
/// True on threads that mark_source_thread() gave a state.
bool is_source_thread() noexcept;

/// Makes os.fork() wait for threads that are just getting their state. Throws what Python raises.
void register_source_threads_at_fork(nanobind::module_& module);

}  // namespace crossdock::python
