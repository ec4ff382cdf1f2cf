#include "crossdock/core/error.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>
#include <system_error>

namespace crossdock {

namespace {

struct Kind {
  ErrorCode code;
  std::string_view name;
  void (*raise)(const std::string& what, int system_errno);
};

template <ErrorCode C>
constexpr Kind kind(std::string_view name) {
  return {C, name, [](const std::string& what, int system_errno) { throw ErrorOf<C>(what, system_errno); }};
}

constexpr Kind kKinds[] = {
    kind<ErrorCode::kInvalidArgument>("InvalidArgumentError"),
    kind<ErrorCode::kUri>("UriError"),
    kind<ErrorCode::kScheme>("SchemeError"),
    kind<ErrorCode::kNotFound>("NotFoundError"),
    kind<ErrorCode::kUnsupportedType>("UnsupportedTypeError"),
    kind<ErrorCode::kInvalidData>("InvalidDataError"),
    kind<ErrorCode::kProtocol>("ProtocolError"),
    kind<ErrorCode::kHandshake>("HandshakeError"),
    kind<ErrorCode::kTruncatedStream>("TruncatedStreamError"),
    kind<ErrorCode::kFileChanged>("FileChangedError"),
    kind<ErrorCode::kArenaFrozen>("ArenaFrozenError"),
    kind<ErrorCode::kFork>("ForkError"),
    kind<ErrorCode::kLeaseLimit>("LeaseLimitError"),
    kind<ErrorCode::kTimeout>("TimeoutError"),
    kind<ErrorCode::kClosed>("ClosedError"),
    kind<ErrorCode::kPermission>("PermissionError"),
    kind<ErrorCode::kResource>("ResourceError"),
    kind<ErrorCode::kSystem>("SystemError"),
    kind<ErrorCode::kInterrupted>("InterruptedError"),
    kind<ErrorCode::kConsumed>("ConsumedError"),
    kind<ErrorCode::kConnection>("ConnectionError"),
    kind<ErrorCode::kRemote>("RemoteError"),
    kind<ErrorCode::kStreamBusy>("StreamBusyError"),
    kind<ErrorCode::kUnsupported>("UnsupportedError"),
    kind<ErrorCode::kExport>("ExportError"),
    kind<ErrorCode::kExecutionPlacement>("ExecutionPlacementError"),
    kind<ErrorCode::kUpstream>("UpstreamError"),
};

}  // namespace

std::string_view error_name(ErrorCode code) noexcept {
  const auto* const found = std::ranges::find(kKinds, code, &Kind::code);
  return found == std::end(kKinds) ? "Error" : found->name;
}

void throw_error(ErrorCode code, const std::string& what, int system_errno) {
  const auto* const found = std::ranges::find(kKinds, code, &Kind::code);
  if (found != std::end(kKinds)) found->raise(what, system_errno);
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
