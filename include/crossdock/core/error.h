#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "crossdock/core/export.h"

namespace crossdock {

/// What went wrong. The numbers are stable: they cross C boundaries as status codes and name the Python exceptions.
enum class ErrorCode : std::int32_t {
  kInvalidArgument = 1,      ///< A caller's argument is wrong; nothing was done.
  kUri = 2,                  ///< A URI is malformed, or lacks what its scheme needs.
  kScheme = 3,               ///< No transport speaks this scheme, here or at all.
  kNotFound = 4,             ///< A name isn't in the catalog, or a file or address isn't there.
  kUnsupportedType = 5,      ///< An Arrow type that this version can't carry.
  kInvalidData = 6,          ///< Arrow data or IPC metadata that breaks its own rules.
  kProtocol = 7,             ///< The peer broke the protocol; its connection ends, and no other.
  kHandshake = 8,            ///< The peer is something else, or of another version.
  kTruncatedStream = 9,      ///< The connection was lost before End of Stream.
  kFileChanged = 10,         ///< A served file changed under its readers.
  kArenaFrozen = 11,         ///< The arena was published; it takes no more data.
  kFork = 12,                ///< The object belongs to the parent process.
  kLeaseLimit = 13,          ///< The consumer holds more of the stream than its limit.
  kTimeout = 14,             ///< The time given by the caller is over.
  kClosed = 15,              ///< The object, or the server behind it, was closed.
  kPermission = 16,          ///< Another user, or a file that may not be opened.
  kResource = 17,            ///< Out of memory, descriptors, mappings or region numbers.
  kSystem = 18,              ///< A system call failed in a way that has no name of its own.
  kInterrupted = 19,         ///< The caller's interrupt hook asked to stop (Ctrl-C).
  kConsumed = 20,            ///< A one-shot stream was given to somebody already.
  kConnection = 21,          ///< No connection: nobody listens, or it was refused or lost.
  kRemote = 22,              ///< The other end reported an error; its text is in the message.
  kStreamBusy = 23,          ///< A stream is under way on this object; finish or close it first.
  kUnsupported = 24,         ///< A driver, or this system, can't do what was asked; the text names it.
  kExport = 25,              ///< An array can't be handed over by this protocol as it is; the text says what to do.
  kExecutionPlacement = 26,  ///< Arrays of one call lie where no one queue may work on them; the text says what to do.
};

/// The code's name as it stands in messages and Python class names, for example "TruncatedStreamError".
CROSSDOCK_EXPORT std::string_view error_name(ErrorCode code) noexcept;

/// The root of every exception that Crossdock throws. The text says what was wrong, where, and what to do.
/// Immutable once made; may be copied between threads.
class CROSSDOCK_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what, int system_errno = 0)
      : std::runtime_error(what), code_(code), system_errno_(system_errno) {}
  ErrorCode code() const noexcept { return code_; }
  /// The errno of the system call, or of the C callback, that failed; 0 where none did.
  int system_errno() const noexcept { return system_errno_; }

 private:
  ErrorCode code_;
  int system_errno_;
};

/// One class per code, so that C++ callers catch by type as Python callers do.
template <ErrorCode C>
class CROSSDOCK_EXPORT ErrorOf : public Error {
 public:
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

/// Throws the class that belongs to `code`: for errors that arrive as numbers.
[[noreturn]] CROSSDOCK_EXPORT void throw_error(ErrorCode code, const std::string& what, int system_errno = 0);

/// Throws for a failed system call: ResourceError for ENOMEM, EMFILE, ENFILE, ENOSPC; PermissionError for EACCES,
/// EPERM; NotFoundError for ENOENT; else SystemError. The error keeps the errno. `doing` is what was tried, as in
/// "mapping region 3 of shm:/x.sock".
[[noreturn]] CROSSDOCK_EXPORT void throw_errno(int error_number, const std::string& doing);

}  // namespace crossdock
