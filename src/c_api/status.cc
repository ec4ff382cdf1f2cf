#include "crossdock/c_api/status.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "c_api/arguments.h"
#include "c_api/boundary.h"
#include "crossdock/core/error.h"
#include "crossdock/version.h"

struct crossdock_error {
  crossdock_status status = CROSSDOCK_OK;
  std::int32_t system_errno = 0;
  const char* call = "";
  std::string message{};
  const char* fixed_message = nullptr;  ///< If it isn't null, the text instead of `message`.
};

namespace crossdock::c_api {
namespace {

constexpr std::pair<crossdock_status, ErrorCode> kCodes[] = {
    {CROSSDOCK_ERROR_INVALID_ARGUMENT, ErrorCode::kInvalidArgument},
    {CROSSDOCK_ERROR_URI, ErrorCode::kUri},
    {CROSSDOCK_ERROR_SCHEME, ErrorCode::kScheme},
    {CROSSDOCK_ERROR_NOT_FOUND, ErrorCode::kNotFound},
    {CROSSDOCK_ERROR_UNSUPPORTED_TYPE, ErrorCode::kUnsupportedType},
    {CROSSDOCK_ERROR_INVALID_DATA, ErrorCode::kInvalidData},
    {CROSSDOCK_ERROR_PROTOCOL, ErrorCode::kProtocol},
    {CROSSDOCK_ERROR_HANDSHAKE, ErrorCode::kHandshake},
    {CROSSDOCK_ERROR_TRUNCATED_STREAM, ErrorCode::kTruncatedStream},
    {CROSSDOCK_ERROR_FILE_CHANGED, ErrorCode::kFileChanged},
    {CROSSDOCK_ERROR_ARENA_FROZEN, ErrorCode::kArenaFrozen},
    {CROSSDOCK_ERROR_FORK, ErrorCode::kFork},
    {CROSSDOCK_ERROR_LEASE_LIMIT, ErrorCode::kLeaseLimit},
    {CROSSDOCK_ERROR_TIMEOUT, ErrorCode::kTimeout},
    {CROSSDOCK_ERROR_CLOSED, ErrorCode::kClosed},
    {CROSSDOCK_ERROR_PERMISSION, ErrorCode::kPermission},
    {CROSSDOCK_ERROR_RESOURCE, ErrorCode::kResource},
    {CROSSDOCK_ERROR_SYSTEM, ErrorCode::kSystem},
    {CROSSDOCK_ERROR_INTERRUPTED, ErrorCode::kInterrupted},
    {CROSSDOCK_ERROR_CONSUMED, ErrorCode::kConsumed},
    {CROSSDOCK_ERROR_CONNECTION, ErrorCode::kConnection},
    {CROSSDOCK_ERROR_REMOTE, ErrorCode::kRemote},
    {CROSSDOCK_ERROR_STREAM_BUSY, ErrorCode::kStreamBusy},
    {CROSSDOCK_ERROR_UNSUPPORTED, ErrorCode::kUnsupported},
    {CROSSDOCK_ERROR_EXPORT, ErrorCode::kExport},
    {CROSSDOCK_ERROR_EXECUTION_PLACEMENT, ErrorCode::kExecutionPlacement},
    {CROSSDOCK_ERROR_UPSTREAM, ErrorCode::kUpstream},
};
// The numbers agree, so that a code that was added to ErrorCode alone still arrives as itself.
static_assert(std::ranges::all_of(kCodes,
                                  [](const auto& code) { return code.first == static_cast<int>(code.second); }));

constexpr const char* kNoMemory = "no memory left";

/// What a caller gets where there is no memory for an error. Never written to, and never freed.
crossdock_error& no_memory() noexcept {
  // Without a destructor: calls may fail while the process ends.
  static union Forever {
    Forever() noexcept : error{.status = CROSSDOCK_ERROR_RESOURCE, .fixed_message = kNoMemory} {}
    ~Forever() {}
    crossdock_error error;
  } forever;
  return forever.error;
}

crossdock_status write(crossdock_error** error, const char* call, crossdock_status status, std::int32_t system_errno,
                       std::string_view message) noexcept {
  if (error == nullptr) return status;
  try {
    std::string text(message);
    if (*error == nullptr || *error == &no_memory()) *error = new crossdock_error;
    **error = {status, system_errno, call, std::move(text)};
  } catch (...) {
    crossdock_error_release(error);
    *error = &no_memory();
  }
  return status;
}

}  // namespace

crossdock_status report(const char* call, crossdock_error** error) noexcept {
  try {
    throw;
  } catch (const Error& failure) {
    return write(error, call, static_cast<crossdock_status>(failure.code()), failure.system_errno(), failure.what());
  } catch (const std::bad_alloc&) {
    return write(error, call, CROSSDOCK_ERROR_RESOURCE, 0, kNoMemory);
  } catch (const std::exception& failure) {
    return write(error, call, CROSSDOCK_ERROR_INTERNAL, 0, failure.what());
  } catch (...) {
    return write(error, call, CROSSDOCK_ERROR_INTERNAL, 0, "an exception without a text");
  }
}

}  // namespace crossdock::c_api

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.

const char* crossdock_status_name(crossdock_status status) {
  if (status == CROSSDOCK_OK) return "OK";
  if (status == CROSSDOCK_ERROR_INTERNAL) return "InternalError";
  return crossdock::error_name(static_cast<crossdock::ErrorCode>(status)).data();  // literals, which end with NUL
}

const char* crossdock_version() { return crossdock::version().data(); }

void crossdock_error_release(crossdock_error** error) {
  if (error != nullptr && *error == &no_memory()) *error = nullptr;
  release(error);
}

crossdock_status crossdock_error_status(const crossdock_error* error) {
  return error != nullptr ? error->status : CROSSDOCK_OK;
}

const char* crossdock_error_message(const crossdock_error* error) {
  if (error == nullptr) return "";
  return error->fixed_message != nullptr ? error->fixed_message : error->message.c_str();
}

const char* crossdock_error_call(const crossdock_error* error) { return error != nullptr ? error->call : ""; }

int32_t crossdock_error_errno(const crossdock_error* error) { return error != nullptr ? error->system_errno : 0; }

crossdock_status crossdock_error_set(crossdock_error** error, crossdock_status status, crossdock_string message) {
  // Also a wrong text must not hide the failure that the callback reports.
  const bool valid = message.data != nullptr && message.size <= kMaxText;
  return write(error, "", status, 0, valid ? std::string_view(message.data, message.size) : std::string_view());
}
