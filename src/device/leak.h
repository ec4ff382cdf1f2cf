#pragma once

#include <memory>

namespace crossdock::device {

/// Keeps memory until the process ends. For memory that work may still access and that can't be waited for: a leak is
/// safe, and freeing it is not. Leak checkers report it as reachable, or as lost where no memory is left to list it.
/// Thread-safe.
void leak(std::shared_ptr<const void> owner) noexcept;

}  // namespace crossdock::device
