#include "handshake.h"

#include <algorithm>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::transport::ucx {
namespace {

constexpr std::uint64_t kSane = 1ull << 60;  // limit of lengths, so that additions can't overflow 64 bits

}  // namespace

void check_options(const UcxOptions& options) {
  const auto refuse = [](const std::string& what) { throw InvalidArgumentError("UcxOptions::" + what); };
  if (options.max_message == 0) refuse("max_message is 0: no message could be sent");
  if (options.max_request == 0) refuse("max_request is 0: no client could request a stream");
  if (options.max_message > kSane) refuse("max_message is over 2^60 bytes");
  if (options.max_body > kSane) refuse("max_body is over 2^60 bytes");
  if (options.token.size() > 1024) refuse("token is over 1024 bytes");
  if (options.handshake_timeout_ms <= 0) {
    refuse("handshake_timeout_ms is " + std::to_string(options.handshake_timeout_ms) + "; it must be above 0");
  }
  if (options.transports.empty()) refuse("transports is empty: UCX would have none to use; \"all\" allows every one");
  if (options.keepalive_s < 0 || options.keepalive_s > 32767) refuse("keepalive_s must be from 0 to 32767");
  if (options.user_timeout_ms < 0) refuse("user_timeout_ms can't be negative");
}

ReceiveLimits limits_for(const UcxOptions& options, std::uint64_t max_message) {
  return {.max_untagged = max_message,
          .max_control = net::kMaxRecord,
          .max_tagged = std::max(max_message, options.max_body)};
}

}  // namespace crossdock::transport::ucx
