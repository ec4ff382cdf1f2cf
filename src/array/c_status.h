#pragma once

#include <string>

#include "crossdock/core/error.h"

/// The status codes of the Arrow C stream interface, which are errno values, to and from errors: the one place for
/// both ways.
namespace crossdock::array {

/// Throws for the status that a producer's callback gave: the class that fits the errno best, which keeps the errno.
/// EINVAL, EDOM, ERANGE, and what is no errno: InvalidDataError. ENOSYS, ENOTSUP: UnsupportedError. ENOMEM, EMFILE,
/// ENFILE, ENOSPC: ResourceError. EACCES, EPERM: PermissionError. ENOENT: NotFoundError. ETIMEDOUT: TimeoutError.
/// EINTR: InterruptedError. ECANCELED: ClosedError. EPIPE, ENOTCONN, ECONN...: ConnectionError. Else SystemError.
[[noreturn]] void throw_status(int status, const std::string& what);

/// The other way: the error's errno, if it has one, else the errno that its code stands for; EIO for codes that none
/// stands for.
int status_of(const Error& error) noexcept;

}  // namespace crossdock::array
