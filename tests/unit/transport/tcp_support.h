#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp.h"

/// Helpers of the tcp transport's tests.
namespace crossdock::transport::tcp_test {

using Clock = std::chrono::steady_clock;

inline std::int64_t in_ms(int milliseconds) {
  return (Clock::now() + std::chrono::milliseconds(milliseconds)).time_since_epoch() / std::chrono::nanoseconds(1);
}

/// Waits for whatever the listener waits for; false after `timeout_ms`.
inline bool await_event(const Listener& listener, int timeout_ms) {
  pollfd ask{listener.descriptor(), POLLIN, 0};
  return ::poll(&ask, 1, timeout_ms) > 0;
}

/// Waits until the listener has a connection; null after about `timeout_ms`.
inline std::unique_ptr<Connection> accept_one(Listener& listener, int timeout_ms = 10'000) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (Clock::now() < deadline) {
    if (auto connection = listener.accept()) return connection;
    await_event(listener, timeout_ms);
  }
  return nullptr;
}

/// The address in a listener's URI, as a transport is given it.
inline std::string address_of(const Listener& listener) {
  const std::string uri = listener.uri();
  return uri.substr(uri.find(':') + 1);
}

}  // namespace crossdock::transport::tcp_test
