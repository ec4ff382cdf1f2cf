#pragma once

#include <nanobind/nanobind.h>

/// The one place where C++ exceptions become Python's.
namespace crossdock::python {

/// Looks up the classes of crossdock.errors, one per ErrorCode, offers them as the module's error_classes (by code, the
/// root at 0), and registers the translator. Needs the lock; called once. Throws Python's AttributeError where a code
/// has no class.
void register_errors(nanobind::module_& module);

}  // namespace crossdock::python
