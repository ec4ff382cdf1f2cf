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

void throw_error(ErrorCode code, const std::string& what) {
  switch (code) {
    case ErrorCode::kInvalidArgument: throw InvalidArgumentError(what);
    case ErrorCode::kUri: throw UriError(what);
    case ErrorCode::kScheme: throw SchemeError(what);
    case ErrorCode::kNotFound: throw NotFoundError(what);
    case ErrorCode::kUnsupportedType: throw UnsupportedTypeError(what);
    case ErrorCode::kInvalidData: throw InvalidDataError(what);
    case ErrorCode::kProtocol: throw ProtocolError(what);
    case ErrorCode::kHandshake: throw HandshakeError(what);
    case ErrorCode::kTruncatedStream: throw TruncatedStreamError(what);
    case ErrorCode::kFileChanged: throw FileChangedError(what);
    case ErrorCode::kArenaFrozen: throw ArenaFrozenError(what);
    case ErrorCode::kFork: throw ForkError(what);
    case ErrorCode::kLeaseLimit: throw LeaseLimitError(what);
    case ErrorCode::kTimeout: throw TimeoutError(what);
    case ErrorCode::kClosed: throw ClosedError(what);
    case ErrorCode::kPermission: throw PermissionError(what);
    case ErrorCode::kResource: throw ResourceError(what);
    case ErrorCode::kSystem: throw SystemError(what);
    case ErrorCode::kInterrupted: throw InterruptedError(what);
    case ErrorCode::kConsumed: throw ConsumedError(what);
    case ErrorCode::kConnection: throw ConnectionError(what);
    case ErrorCode::kRemote: throw RemoteError(what);
    case ErrorCode::kStreamBusy: throw StreamBusyError(what);
    case ErrorCode::kUnsupported: throw UnsupportedError(what);
    case ErrorCode::kExport: throw ExportError(what);
    case ErrorCode::kExecutionPlacement: throw ExecutionPlacementError(what);
  }
  throw Error(code, what);
}

void throw_errno(int error_number, const std::string& doing) {
  const std::string what = doing + ": " + std::generic_category().message(error_number);
  switch (error_number) {
    // The text may be read in another process: it names the one whose limit it is.
    case EMFILE:
      throw ResourceError(what + "; process " + std::to_string(::getpid()) +
                          " has as many open as it may: close some there, or raise its limit (ulimit -n)");
    case ENOMEM:
    case ENFILE:
    case ENOSPC: throw ResourceError(what);
    case EACCES:
    case EPERM: throw PermissionError(what);
    case ENOENT: throw NotFoundError(what);
    default: throw SystemError(what);
  }
}

}  // namespace crossdock
