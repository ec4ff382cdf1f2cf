#include "array/internal/c_status.h"

#include <cerrno>

namespace crossdock::array {
namespace {

ErrorCode code_of(int status) noexcept {
  switch (status) {
    case EINVAL:
    case EDOM:
    case ERANGE: return ErrorCode::kInvalidData;
    case ENOSYS:
    case ENOTSUP: return ErrorCode::kUnsupported;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC: return ErrorCode::kResource;
    case EACCES:
    case EPERM: return ErrorCode::kPermission;
    case ENOENT: return ErrorCode::kNotFound;
    case ETIMEDOUT: return ErrorCode::kTimeout;
    case EINTR: return ErrorCode::kInterrupted;
    case ECANCELED: return ErrorCode::kClosed;
    case EPIPE:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED: return ErrorCode::kConnection;
    default: return status > 0 ? ErrorCode::kSystem : ErrorCode::kInvalidData;
  }
}

}  // namespace

void throw_status(int status, const std::string& what) { throw_error(code_of(status), what, status > 0 ? status : 0); }

int status_of(const Error& error) noexcept {
  if (error.system_errno() > 0) return error.system_errno();
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidData:
    case ErrorCode::kUri:
    case ErrorCode::kScheme: return EINVAL;
    case ErrorCode::kUnsupportedType:
    case ErrorCode::kUnsupported: return ENOSYS;
    case ErrorCode::kResource: return ENOMEM;
    case ErrorCode::kPermission: return EACCES;
    case ErrorCode::kNotFound: return ENOENT;
    case ErrorCode::kTimeout: return ETIMEDOUT;
    case ErrorCode::kInterrupted: return EINTR;
    case ErrorCode::kClosed: return ECANCELED;
    case ErrorCode::kConnection: return ECONNRESET;
    default: return EIO;
  }
}

}  // namespace crossdock::array
