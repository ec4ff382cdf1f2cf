#pragma once

/// The one place where C++ exceptions become Python's.
namespace crossdock::python {

/// Looks up the classes of crossdock.errors, one per ErrorCode, and registers the translator. Needs the lock; called
/// once.
void register_errors();

}  // namespace crossdock::python
