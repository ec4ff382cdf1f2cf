#include "array/internal/c_status.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace crossdock::array {
namespace {

struct Entry {
  ErrorCode code;
  int statuses[5];  ///< The first is that of the code. Unused places are 0.
};

/// For a status, the first entry that has it.
constexpr Entry kEntries[] = {
    {ErrorCode::kInvalidData, {EINVAL, EDOM, ERANGE}},
    {ErrorCode::kUnsupported, {ENOSYS, ENOTSUP}},
    {ErrorCode::kResource, {ENOMEM, EMFILE, ENFILE, ENOSPC}},
    {ErrorCode::kPermission, {EACCES, EPERM}},
    {ErrorCode::kNotFound, {ENOENT}},
    {ErrorCode::kTimeout, {ETIMEDOUT}},
    {ErrorCode::kInterrupted, {EINTR}},
    {ErrorCode::kClosed, {ECANCELED}},
    {ErrorCode::kConnection, {ECONNRESET, ECONNABORTED, ECONNREFUSED, ENOTCONN, EPIPE}},
    {ErrorCode::kInvalidArgument, {EINVAL}},
    {ErrorCode::kUri, {EINVAL}},
    {ErrorCode::kScheme, {EINVAL}},
    {ErrorCode::kUnsupportedType, {ENOSYS}},
};

}  // namespace

void throw_status(int status, const std::string& what) {
  if (status <= 0) throw_error(ErrorCode::kInvalidData, what, 0);
  const auto* const found = std::ranges::find_if(kEntries, [status](const Entry& entry) {
    return std::ranges::find(entry.statuses, status) != std::end(entry.statuses);
  });
  throw_error(found != std::end(kEntries) ? found->code : ErrorCode::kSystem, what, status);
}

int status_of(const Error& error) noexcept {
  if (error.system_errno() > 0) return error.system_errno();
  const auto* const found = std::ranges::find(kEntries, error.code(), &Entry::code);
  return found != std::end(kEntries) ? found->statuses[0] : EIO;
}

}  // namespace crossdock::array
