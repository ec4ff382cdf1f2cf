#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::transport::net {

/// Checks the limits and times that the options of every transport over a network have. `type` names the options in
/// errors. Throws InvalidArgumentError.
template <typename Options>
void check_limits(const Options& options, const std::string& type) {
  constexpr std::uint64_t kSane = 1ull << 60;  // limit of lengths, so that additions can't overflow 64 bits
  const auto refuse = [&](const std::string& what) { throw InvalidArgumentError(type + "::" + what); };
  if (options.max_message == 0) refuse("max_message is 0: no message could be sent");
  if (options.max_request == 0) refuse("max_request is 0: no client could request a stream");
  if (options.max_message > kSane) refuse("max_message is over 2^60 bytes");
  if (options.max_body > kSane) refuse("max_body is over 2^60 bytes");
  if (options.token.size() > 1024) refuse("token is over 1024 bytes");
  if (options.handshake_timeout.count() <= 0) {
    refuse("handshake_timeout is " + std::to_string(options.handshake_timeout.count()) + " ms; it must be above 0");
  }
  if (options.keepalive.count() < 0 || options.keepalive.count() > 32767) {
    refuse("keepalive must be from 0 to 32767 s");
  }
  const auto user_timeout =
      std::optional<std::chrono::milliseconds>(options.user_timeout).value_or(std::chrono::milliseconds(0));
  if (user_timeout.count() < 0) refuse("user_timeout can't be negative");
  if (user_timeout.count() > std::numeric_limits<int>::max()) refuse("user_timeout is over 2^31 - 1 ms");
}

}  // namespace crossdock::transport::net
