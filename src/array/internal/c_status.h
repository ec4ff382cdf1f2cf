#pragma once

#include <string>

#include "crossdock/core/error.h"

/// Conversion between errors and the status codes of the Arrow C stream interface, which are errno values. The only
/// place for both directions.
namespace crossdock::array {

/// Throws for the status that a producer's callback returned: the class that fits the errno best. The error keeps the
/// errno. EINVAL, EDOM, ERANGE, and values that are no errno: InvalidDataError. ENOSYS, ENOTSUP: UnsupportedError.
/// ENOMEM, EMFILE, ENFILE, ENOSPC: ResourceError. EACCES, EPERM: PermissionError. ENOENT: NotFoundError. ETIMEDOUT:
/// TimeoutError. EINTR: InterruptedError. ECANCELED: ClosedError. EPIPE, ENOTCONN, ECONN...: ConnectionError. Else
/// SystemError.
[[noreturn]] void throw_status(int status, const std::string& what);

/// Returns the error's errno, if it has one, else the errno that corresponds to its code; EIO for codes without one.
int status_of(const Error& error) noexcept;

}  // namespace crossdock::array
