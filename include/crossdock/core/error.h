#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "crossdock/core/export.h"

namespace crossdock {

/// The kind of an error. The numbers are stable: they cross C boundaries as status codes and select the Python
/// exceptions.
enum class ErrorCode : std::int32_t {
  kInvalidArgument = 1,      ///< A caller's argument is wrong; nothing was done.
  kUri = 2,                  ///< A URI is malformed, or lacks a part that its scheme needs.
  kScheme = 3,               ///< No transport supports this scheme, here or at all.
  kNotFound = 4,             ///< A name isn't in the catalog, or a file or address doesn't exist.
  kUnsupportedType = 5,      ///< An Arrow type that this version can't carry.
  kInvalidData = 6,          ///< Arrow data or IPC metadata that breaks its own rules.
  kProtocol = 7,             ///< The peer broke the protocol; its connection ends, and no other.
  kHandshake = 8,            ///< The peer doesn't speak this protocol, or has another version.
  kTruncatedStream = 9,      ///< The connection was lost before End of Stream.
  kFileChanged = 10,         ///< A served file changed under its readers.
  kArenaFrozen = 11,         ///< The arena was published; it takes no more data.
  kFork = 12,                ///< The object belongs to the parent process.
  kLeaseLimit = 13,          ///< The consumer holds more of the stream than its limit.
  kTimeout = 14,             ///< The caller's time limit is over.
  kClosed = 15,              ///< The object, or the server behind it, was closed.
  kPermission = 16,          ///< The peer is another user, or a file may not be opened.
  kResource = 17,            ///< Out of memory, descriptors, mappings or region numbers.
  kSystem = 18,              ///< A system call failed in a way that has no code of its own.
  kInterrupted = 19,         ///< The caller's interrupt hook asked to stop (Ctrl-C).
  kConsumed = 20,            ///< A one-shot stream was consumed already.
  kConnection = 21,          ///< No connection: no server listens, or it was refused or lost.
  kRemote = 22,              ///< The other end reported an error; its text is in the message.
  kStreamBusy = 23,          ///< A stream is under way on this object; finish or close it first.
  kUnsupported = 24,         ///< A driver, or this system, can't do the requested operation; the text names it.
  kExport = 25,              ///< This protocol can't describe the array in its present form; the text says what to do.
  kExecutionPlacement = 26,  ///< No single queue may work on all arrays of one call; the text says what to do.
  kUpstream = 27,            ///< A relay can't reach the server that it fetches from.
};

/// Returns the code's name as used in messages and Python class names, for example "TruncatedStreamError".
CROSSDOCK_EXPORT std::string_view error_name(ErrorCode code) noexcept;

/// The base class of every exception that Crossdock throws. The text says what was wrong, where, and what to do.
/// Immutable once made; may be copied between threads.
class CROSSDOCK_EXPORT Error : public std::runtime_error {
 public:
  /// Makes an error with the text `what`, which is copied. `system_errno` as below.
  Error(ErrorCode code, const std::string& what, int system_errno = 0)
      : std::runtime_error(what), code_(code), system_errno_(system_errno) {}
  /// Returns the kind of the error: for a class ErrorOf<C>, C. A peer's code that this version has no class for stays
  /// as it came.
  ErrorCode code() const noexcept { return code_; }
  /// Returns the errno of the system call, or of the C callback, that failed; 0 if none failed.
  int system_errno() const noexcept { return system_errno_; }

 private:
  ErrorCode code_;
  int system_errno_;
};

/// One class per code, so that C++ callers catch by type as Python callers do.
template <ErrorCode C>
class CROSSDOCK_EXPORT ErrorOf : public Error {
 public:
  /// Makes an error of this class, with the text and the errno as in Error.
  explicit ErrorOf(const std::string& what, int system_errno = 0) : Error(C, what, system_errno) {}
};

using InvalidArgumentError = ErrorOf<ErrorCode::kInvalidArgument>;
using UriError = ErrorOf<ErrorCode::kUri>;
using SchemeError = ErrorOf<ErrorCode::kScheme>;
using NotFoundError = ErrorOf<ErrorCode::kNotFound>;
using UnsupportedTypeError = ErrorOf<ErrorCode::kUnsupportedType>;
using InvalidDataError = ErrorOf<ErrorCode::kInvalidData>;
using ProtocolError = ErrorOf<ErrorCode::kProtocol>;
using HandshakeError = ErrorOf<ErrorCode::kHandshake>;
using TruncatedStreamError = ErrorOf<ErrorCode::kTruncatedStream>;
using FileChangedError = ErrorOf<ErrorCode::kFileChanged>;
using ArenaFrozenError = ErrorOf<ErrorCode::kArenaFrozen>;
using ForkError = ErrorOf<ErrorCode::kFork>;
using LeaseLimitError = ErrorOf<ErrorCode::kLeaseLimit>;
using TimeoutError = ErrorOf<ErrorCode::kTimeout>;
using ClosedError = ErrorOf<ErrorCode::kClosed>;
using PermissionError = ErrorOf<ErrorCode::kPermission>;
using ResourceError = ErrorOf<ErrorCode::kResource>;
using SystemError = ErrorOf<ErrorCode::kSystem>;
using InterruptedError = ErrorOf<ErrorCode::kInterrupted>;
using ConsumedError = ErrorOf<ErrorCode::kConsumed>;
using ConnectionError = ErrorOf<ErrorCode::kConnection>;
using RemoteError = ErrorOf<ErrorCode::kRemote>;
using StreamBusyError = ErrorOf<ErrorCode::kStreamBusy>;
using UnsupportedError = ErrorOf<ErrorCode::kUnsupported>;
using ExportError = ErrorOf<ErrorCode::kExport>;
using ExecutionPlacementError = ErrorOf<ErrorCode::kExecutionPlacement>;
using UpstreamError = ErrorOf<ErrorCode::kUpstream>;

/// Throws the class of `code`, for errors that arrive as numbers.
[[noreturn]] CROSSDOCK_EXPORT void throw_error(ErrorCode code, const std::string& what, int system_errno = 0);

/// Throws for a failed system call: ResourceError for ENOMEM, EMFILE, ENFILE, ENOSPC; PermissionError for EACCES,
/// EPERM; NotFoundError for ENOENT; else SystemError. The error keeps the errno. `doing` names the operation, as in
/// "mapping region 3 of shm:/x.sock".
[[noreturn]] CROSSDOCK_EXPORT void throw_errno(int error_number, const std::string& doing);

}  // namespace crossdock
