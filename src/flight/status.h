#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "crossdock/core/error.h"

/// Errors as gRPC's statuses, whose numbers these are (grpc.io, "Status codes"), and back. The text of a status begins
/// with the name of the error: "NotFoundError: nothing is published as 'x'".
namespace crossdock::flight {

enum class StatusCode : std::int32_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

struct Status {
  StatusCode code = StatusCode::kOk;
  std::string text{};
};

/// The caller hasn't said who it is, or wrongly.
class UnauthenticatedError : public PermissionError {
 public:
  using PermissionError::PermissionError;
};

Status status_of(const std::exception& error);
/// Returns the status for a text that begins with the name of an error, as status_of() writes it.
Status status_of_text(std::string text);

}  // namespace crossdock::flight
