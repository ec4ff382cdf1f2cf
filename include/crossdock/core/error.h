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
  kNotFound = 4,             ///< A name isn't in the catalog, or a file, a folder or a device doesn't exist.
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
  /// Returns the kind of the error: for the classes below, kCode. A peer's code that this version has no class for
  /// stays as it came.
  ErrorCode code() const noexcept { return code_; }
  /// Returns the errno of the system call, or of the C callback, that failed; 0 if none failed.
  int system_errno() const noexcept { return system_errno_; }

 private:
  ErrorCode code_;
  int system_errno_;
};

/// The base of the classes below, one for each code, so that C++ callers catch by type as Python callers do.
template <ErrorCode C>
class CROSSDOCK_EXPORT ErrorOf : public Error {
 public:
  /// The code of all errors of this class.
  static constexpr ErrorCode kCode = C;
  /// Makes an error of this class, with the text and the errno as in Error.
  explicit ErrorOf(const std::string& what, int system_errno = 0) : Error(C, what, system_errno) {}
};

// Classes of their own, and not other names of ErrorOf: the C++ library, debuggers and logs print the name of the
// class.
/// The error of ErrorCode::kInvalidArgument.
class CROSSDOCK_EXPORT InvalidArgumentError : public ErrorOf<ErrorCode::kInvalidArgument> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kUri.
class CROSSDOCK_EXPORT UriError : public ErrorOf<ErrorCode::kUri> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kScheme.
class CROSSDOCK_EXPORT SchemeError : public ErrorOf<ErrorCode::kScheme> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kNotFound.
class CROSSDOCK_EXPORT NotFoundError : public ErrorOf<ErrorCode::kNotFound> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kUnsupportedType.
class CROSSDOCK_EXPORT UnsupportedTypeError : public ErrorOf<ErrorCode::kUnsupportedType> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kInvalidData.
class CROSSDOCK_EXPORT InvalidDataError : public ErrorOf<ErrorCode::kInvalidData> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kProtocol.
class CROSSDOCK_EXPORT ProtocolError : public ErrorOf<ErrorCode::kProtocol> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kHandshake.
class CROSSDOCK_EXPORT HandshakeError : public ErrorOf<ErrorCode::kHandshake> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kTruncatedStream.
class CROSSDOCK_EXPORT TruncatedStreamError : public ErrorOf<ErrorCode::kTruncatedStream> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kFileChanged.
class CROSSDOCK_EXPORT FileChangedError : public ErrorOf<ErrorCode::kFileChanged> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kArenaFrozen.
class CROSSDOCK_EXPORT ArenaFrozenError : public ErrorOf<ErrorCode::kArenaFrozen> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kFork.
class CROSSDOCK_EXPORT ForkError : public ErrorOf<ErrorCode::kFork> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kLeaseLimit.
class CROSSDOCK_EXPORT LeaseLimitError : public ErrorOf<ErrorCode::kLeaseLimit> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kTimeout.
class CROSSDOCK_EXPORT TimeoutError : public ErrorOf<ErrorCode::kTimeout> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kClosed.
class CROSSDOCK_EXPORT ClosedError : public ErrorOf<ErrorCode::kClosed> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kPermission.
class CROSSDOCK_EXPORT PermissionError : public ErrorOf<ErrorCode::kPermission> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kResource.
class CROSSDOCK_EXPORT ResourceError : public ErrorOf<ErrorCode::kResource> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kSystem.
class CROSSDOCK_EXPORT SystemError : public ErrorOf<ErrorCode::kSystem> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kInterrupted.
class CROSSDOCK_EXPORT InterruptedError : public ErrorOf<ErrorCode::kInterrupted> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kConsumed.
class CROSSDOCK_EXPORT ConsumedError : public ErrorOf<ErrorCode::kConsumed> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kConnection.
class CROSSDOCK_EXPORT ConnectionError : public ErrorOf<ErrorCode::kConnection> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kRemote.
class CROSSDOCK_EXPORT RemoteError : public ErrorOf<ErrorCode::kRemote> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kStreamBusy.
class CROSSDOCK_EXPORT StreamBusyError : public ErrorOf<ErrorCode::kStreamBusy> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kUnsupported.
class CROSSDOCK_EXPORT UnsupportedError : public ErrorOf<ErrorCode::kUnsupported> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kExport.
class CROSSDOCK_EXPORT ExportError : public ErrorOf<ErrorCode::kExport> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kExecutionPlacement.
class CROSSDOCK_EXPORT ExecutionPlacementError : public ErrorOf<ErrorCode::kExecutionPlacement> {
 public:
  using ErrorOf::ErrorOf;
};
/// The error of ErrorCode::kUpstream.
class CROSSDOCK_EXPORT UpstreamError : public ErrorOf<ErrorCode::kUpstream> {
 public:
  using ErrorOf::ErrorOf;
};

/// Throws the class of `code`, for errors that arrive as numbers.
[[noreturn]] CROSSDOCK_EXPORT void throw_error(ErrorCode code, const std::string& what, int system_errno = 0);

/// Throws for a failed system call: ResourceError for ENOMEM, EMFILE, ENFILE, ENOSPC; PermissionError for EACCES,
/// EPERM; NotFoundError for ENOENT; else SystemError. The error keeps the errno. `doing` names the operation, as in
/// "mapping region 3 of shm:/x.sock".
[[noreturn]] CROSSDOCK_EXPORT void throw_errno(int error_number, const std::string& doing);

}  // namespace crossdock
