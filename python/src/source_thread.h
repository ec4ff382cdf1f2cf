#pragma once

#include <nanobind/nanobind.h>

/// The server's threads that run Python sources. Python knows each of them by one thread state, from its first source
/// until it ends. A state for every call would cost time, and is dangerous beside os.fork(): Python links new states
/// into its list without the interpreter lock, and a child that is forked meanwhile can find the list half written.
namespace crossdock::python {

/// Says that the calling thread is a server's own and runs Python sources, and gives it a thread state if it has none.
/// Called before it takes the interpreter lock for the first time, and on no other thread: one with a state takes the
/// interpreter lock when it ends, and its owner may join it with that lock held. Needs no lock.
void mark_source_thread() noexcept;
/// True on threads that mark_source_thread() was called on.
bool is_source_thread() noexcept;

/// Makes os.fork() wait for threads that are just getting their state, without the interpreter lock, and these for
/// forks. Throws what Python raises.
void register_source_threads_at_fork(nanobind::module_& module);

}  // namespace crossdock::python
