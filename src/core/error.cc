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

template <class E>
constexpr Kind kind(std::string_view name) {
  return {E::kCode, name, [](const std::string& what, int system_errno) { throw E(what, system_errno); }};
}

constexpr Kind kKinds[] = {
    kind<InvalidArgumentError>("InvalidArgumentError"),
    kind<UriError>("UriError"),
    kind<SchemeError>("SchemeError"),
    kind<NotFoundError>("NotFoundError"),
    kind<UnsupportedTypeError>("UnsupportedTypeError"),
    kind<InvalidDataError>("InvalidDataError"),
    kind<ProtocolError>("ProtocolError"),
    kind<HandshakeError>("HandshakeError"),
    kind<TruncatedStreamError>("TruncatedStreamError"),
    kind<FileChangedError>("FileChangedError"),
    kind<ArenaFrozenError>("ArenaFrozenError"),
    kind<ForkError>("ForkError"),
    kind<LeaseLimitError>("LeaseLimitError"),
    kind<TimeoutError>("TimeoutError"),
    kind<ClosedError>("ClosedError"),
    kind<PermissionError>("PermissionError"),
    kind<ResourceError>("ResourceError"),
    kind<SystemError>("SystemError"),
    kind<InterruptedError>("InterruptedError"),
    kind<ConsumedError>("ConsumedError"),
    kind<ConnectionError>("ConnectionError"),
    kind<RemoteError>("RemoteError"),
    kind<StreamBusyError>("StreamBusyError"),
    kind<UnsupportedError>("UnsupportedError"),
    kind<ExportError>("ExportError"),
    kind<ExecutionPlacementError>("ExecutionPlacementError"),
    kind<UpstreamError>("UpstreamError"),
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
