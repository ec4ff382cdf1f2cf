#include "crossdock/core/error.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace crossdock {

std::string_view error_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "InvalidArgumentError";
    case ErrorCode::kUri: return "UriError";
    case ErrorCode::kScheme: return "SchemeError";
    case ErrorCode::kNotFound: return "NotFoundError";
    case ErrorCode::kUnsupportedType: return "UnsupportedTypeError";
    case ErrorCode::kInvalidData: return "InvalidDataError";
    case ErrorCode::kProtocol: return "ProtocolError";
    case ErrorCode::kHandshake: return "HandshakeError";
    case ErrorCode::kTruncatedStream: return "TruncatedStreamError";
    case ErrorCode::kFileChanged: return "FileChangedError";
    case ErrorCode::kArenaFrozen: return "ArenaFrozenError";
    case ErrorCode::kFork: return "ForkError";
    case ErrorCode::kLeaseLimit: return "LeaseLimitError";
    case ErrorCode::kTimeout: return "TimeoutError";
    case ErrorCode::kClosed: return "ClosedError";
    case ErrorCode::kPermission: return "PermissionError";
    case ErrorCode::kResource: return "ResourceError";
    case ErrorCode::kSystem: return "SystemError";
    case ErrorCode::kInterrupted: return "InterruptedError";
    case ErrorCode::kConsumed: return "ConsumedError";
    case ErrorCode::kConnection: return "ConnectionError";
    case ErrorCode::kRemote: return "RemoteError";
    case ErrorCode::kStreamBusy: return "StreamBusyError";
    case ErrorCode::kUnsupported: return "UnsupportedError";
    case ErrorCode::kExport: return "ExportError";
    case ErrorCode::kExecutionPlacement: return "ExecutionPlacementError";
  }
  return "Error";
}

void throw_error(ErrorCode code, const std::string& what, int system_errno) {
  switch (code) {
    case ErrorCode::kInvalidArgument: throw InvalidArgumentError(what, system_errno);
    case ErrorCode::kUri: throw UriError(what, system_errno);
    case ErrorCode::kScheme: throw SchemeError(what, system_errno);
    case ErrorCode::kNotFound: throw NotFoundError(what, system_errno);
    case ErrorCode::kUnsupportedType: throw UnsupportedTypeError(what, system_errno);
    case ErrorCode::kInvalidData: throw InvalidDataError(what, system_errno);
    case ErrorCode::kProtocol: throw ProtocolError(what, system_errno);
    case ErrorCode::kHandshake: throw HandshakeError(what, system_errno);
    case ErrorCode::kTruncatedStream: throw TruncatedStreamError(what, system_errno);
    case ErrorCode::kFileChanged: throw FileChangedError(what, system_errno);
    case ErrorCode::kArenaFrozen: throw ArenaFrozenError(what, system_errno);
    case ErrorCode::kFork: throw ForkError(what, system_errno);
    case ErrorCode::kLeaseLimit: throw LeaseLimitError(what, system_errno);
    case ErrorCode::kTimeout: throw TimeoutError(what, system_errno);
    case ErrorCode::kClosed: throw ClosedError(what, system_errno);
    case ErrorCode::kPermission: throw PermissionError(what, system_errno);
    case ErrorCode::kResource: throw ResourceError(what, system_errno);
    case ErrorCode::kSystem: throw SystemError(what, system_errno);
    case ErrorCode::kInterrupted: throw InterruptedError(what, system_errno);
    case ErrorCode::kConsumed: throw ConsumedError(what, system_errno);
    case ErrorCode::kConnection: throw ConnectionError(what, system_errno);
    case ErrorCode::kRemote: throw RemoteError(what, system_errno);
    case ErrorCode::kStreamBusy: throw StreamBusyError(what, system_errno);
    case ErrorCode::kUnsupported: throw UnsupportedError(what, system_errno);
    case ErrorCode::kExport: throw ExportError(what, system_errno);
    case ErrorCode::kExecutionPlacement: throw ExecutionPlacementError(what, system_errno);
  }
  throw Error(code, what, system_errno);
}

void throw_errno(int error_number, const std::string& doing) {
  const std::string what = doing + ": " + std::generic_category().message(error_number);
  switch (error_number) {
    // The text may be read in another process, so it names the process that has the limit.
    case EMFILE:
      throw ResourceError(what + "; process " + std::to_string(::getpid()) +
                              " has reached its limit of open files: close some there, or raise the limit (ulimit -n)",
                          error_number);
    case ENOMEM:
    case ENFILE:
    case ENOSPC: throw ResourceError(what, error_number);
    case EACCES:
    case EPERM: throw PermissionError(what, error_number);
    case ENOENT: throw NotFoundError(what, error_number);
    default: throw SystemError(what, error_number);
  }
}

}  // namespace crossdock
