#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/transport/options.h"

namespace crossdock::session {

/// Whether an error says that a relay's upstream, or the connection to it, is gone; others are its answers.
bool is_gone(ErrorCode code) noexcept;

/// A relay's connection to the first of its upstreams that answers. One thread at a time connects; others wait for it,
/// or fail at once with the last failure. Thread-safe.
class RelayLink {
 public:
  /// Connects. Throws as Client; ConnectionError if there are several `uris` and none answers.
  RelayLink(std::vector<std::string> uris, ClientOptions options, const transport::InterruptHook& interrupted);

  /// What an answer that doesn't come in time says.
  enum class Slow : std::uint8_t {
    kServer,  ///< The server stands still: others needn't wait for it as long.
    kData,    ///< Nothing of the server.
  };
  /// Returns use(client, its URI). Calls it once more, with a new client, if the server behind the first is gone: it
  /// may have been restarted. Throws its errors, and those of connecting.
  template <typename Use>
  auto ask(Slow slow, Use use) {
    for (bool first = true;; first = false) {
      const Connected with = connected();
      try {
        return use(*with.client, with.uri);
      } catch (const Error& error) {
        if (!take_failure(with, error.code(), slow) || !first) throw;
      }
    }
  }
  /// Has calls under way, and later ones, throw InterruptedError.
  void stop() noexcept { stopping_.store(true, std::memory_order_relaxed); }
  bool stopped() const noexcept { return stopping_.load(std::memory_order_relaxed); }
  transport::InterruptHook stopping() {
    return [this] { return stopped(); };
  }

  /// The URI that it is connected to; empty: none.
  std::string uri() const;
  /// The same, or the first URI, for errors.
  std::string where() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Connected {
    std::shared_ptr<Client> client{};
    std::string uri{};
  };
  struct Failure {
    Clock::time_point at;
    std::exception_ptr error;
  };

  Connected connected();
  Connected connect(const transport::InterruptHook& interrupted) const;
  bool take_failure(const Connected& with, ErrorCode code, Slow slow);

  const std::vector<std::string> uris_;
  const ClientOptions options_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;  // guards these
  Connected now_;
  std::optional<Failure> failure_;
  bool connecting_ = false;
  std::condition_variable connected_;
};

}  // namespace crossdock::session
