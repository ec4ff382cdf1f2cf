#include "flight/status.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.h"

namespace crossdock::flight {
namespace {

constexpr std::size_t kMostText = 4096;

constexpr std::array<std::pair<ErrorCode, StatusCode>, 17> kCodes = {{
    {ErrorCode::kInvalidArgument, StatusCode::kInvalidArgument},
    {ErrorCode::kUri, StatusCode::kInvalidArgument},
    {ErrorCode::kNotFound, StatusCode::kNotFound},
    {ErrorCode::kUnsupportedType, StatusCode::kUnimplemented},
    {ErrorCode::kInvalidData, StatusCode::kInvalidArgument},
    {ErrorCode::kProtocol, StatusCode::kInvalidArgument},
    {ErrorCode::kTruncatedStream, StatusCode::kDataLoss},
    {ErrorCode::kFileChanged, StatusCode::kDataLoss},
    {ErrorCode::kLeaseLimit, StatusCode::kResourceExhausted},
    {ErrorCode::kTimeout, StatusCode::kDeadlineExceeded},
    {ErrorCode::kClosed, StatusCode::kUnavailable},
    {ErrorCode::kPermission, StatusCode::kPermissionDenied},
    {ErrorCode::kResource, StatusCode::kResourceExhausted},
    {ErrorCode::kConsumed, StatusCode::kFailedPrecondition},
    {ErrorCode::kConnection, StatusCode::kUnavailable},
    {ErrorCode::kUnsupported, StatusCode::kUnimplemented},
    {ErrorCode::kInterrupted, StatusCode::kCancelled},
}};

}  // namespace

Status status_of_text(std::string text) {
  text = bounded_utf8(text, kMostText);
  const auto found = std::ranges::find_if(kCodes, [&](const auto& entry) {
    const std::string_view name = error_name(entry.first);
    return text.starts_with(name) && text.substr(name.size(), 1) == ":";
  });
  return {found == kCodes.end() ? StatusCode::kUnknown : found->second, std::move(text)};
}

Status status_of(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return {StatusCode::kInternal, bounded_utf8(error.what(), kMostText)};
  Status status = status_of_text(std::string(error_name(ours->code())) + ": " + ours->what());
  if (dynamic_cast<const UnauthenticatedError*>(&error) != nullptr) status.code = StatusCode::kUnauthenticated;
  return status;
}

}  // namespace crossdock::flight
