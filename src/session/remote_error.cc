#include "session/remote_error.h"

#include <new>
#include <system_error>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

// Errors that a server may send about itself or the consumer. Other errors (a bad argument in the server's own code,
// for example) don't concern the client.
constexpr ErrorCode kTravelling[] = {
    ErrorCode::kNotFound,    ErrorCode::kUnsupportedType, ErrorCode::kFileChanged, ErrorCode::kLeaseLimit,
    ErrorCode::kClosed,      ErrorCode::kPermission,      ErrorCode::kConsumed,    ErrorCode::kResource,
    ErrorCode::kInvalidData, ErrorCode::kProtocol,        ErrorCode::kUnsupported, ErrorCode::kRemote,
    ErrorCode::kUpstream,
};

// The client's own process may lack the same resource, so the text says which process lacks it.
constexpr const char* kServerLacks = "the server, not this client, lacks a resource: ";

}  // namespace

std::string to_remote_text(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    const char* const whose = ours->code() == ErrorCode::kResource ? kServerLacks : "";
    return std::string(error_name(ours->code())) + ": " + whose + ours->what();
  }
  // Standard exceptions that report the lack of a resource.
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return to_remote_text(ResourceError("no memory is left"));
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error);
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return to_remote_text(
        ResourceError("no thread can be started; check the limits: ulimit -u, ulimit -v and the number of mappings "
                      "(vm.max_map_count)"));
  }
  return to_remote_text(RemoteError(error.what()));
}

void throw_remote(std::string_view text, const std::string& where) {
  for (const ErrorCode code : kTravelling) {
    const std::string_view name = error_name(code);
    if (text.starts_with(name) && text.substr(name.size()).starts_with(": ")) {
      throw_error(code, excerpt(text.substr(name.size() + 2), kMostErrorText) + " (reported by " + where + ")");
    }
  }
  throw RemoteError(excerpt(text, kMostErrorText) + " (reported by " + where + ")");
}

}  // namespace crossdock::session
