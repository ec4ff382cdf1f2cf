#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "transport/ucx/listener.h"

/// Helpers of the tests of the ucx transport's bottom layer.
namespace crossdock::transport::ucx_test {

using namespace ucx;  // NOLINT(google-build-using-namespace): these are its tests

using Clock = std::chrono::steady_clock;

/// How long a test waits for an event that must come.
inline constexpr int kLongMs = 20'000;

inline constexpr ReceiveLimits kLimits = {
    .max_untagged = 64 << 20, .max_control = 4096, .max_tagged = 64 << 20, .max_in_pieces = 64 << 20};

/// Bytes that differ from one message to the next.
inline std::vector<std::byte> pattern(std::size_t size, unsigned seed = 0) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + seed * 13);
  return bytes;
}

inline bool same(ByteSpan one, ByteSpan other) { return std::ranges::equal(one, other); }

/// One end of a connection.
struct End {
  std::shared_ptr<Worker> worker;
  std::unique_ptr<Endpoint> endpoint;
  void close() {
    endpoint.reset();
    worker.reset();
  }
};

/// Makes progress at all of these, asleep in between, until `done()`. Returns false after the time-out.
inline bool run_until(std::initializer_list<Worker*> workers, UcxListener* listener, const std::function<bool()>& done,
                      int timeout_ms = 20'000) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    for (Worker* worker : workers) worker->progress();
    if (listener != nullptr) listener->progress();
    if (done()) return true;
    bool sleeps = true;
    std::vector<pollfd> events;
    for (Worker* worker : workers) {
      sleeps = worker->arm() && sleeps;
      events.push_back({worker->descriptor(), POLLIN, 0});
    }
    if (listener != nullptr) {
      sleeps = listener->arm() && sleeps;
      events.push_back({listener->descriptor(), POLLIN, 0});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (sleeps) ::poll(events.data(), events.size(), static_cast<int>(left));
  }
}

/// A listener, a client and the server's end of its connection, in one process.
class Ends {
 public:
  explicit Ends(const ReceiveLimits& server_limits = kLimits, const UcxOptions& options = {},
                const std::string& address = "")
      : contexts(options), listener(listen_at(contexts, address)) {
    client = connect();
    server = accept(server_limits);
  }

  End connect(const ReceiveLimits& limits = kLimits) {
    End end;
    end.worker = std::make_shared<Worker>(contexts.for_remote(listener->address()), limits, "the server");
    end.endpoint = Endpoint::connect(end.worker, listener->address());
    end.endpoint->limit_copies(64 << 20);  // most tests send without looking for room
    return end;
  }
  End accept(const ReceiveLimits& limits = kLimits) {
    if (!run_until({client.worker.get()}, listener.get(), [this] { return listener->requests() > 0; })) {
      throw std::runtime_error("no client came");
    }
    End end;
    end.worker = std::make_shared<Worker>(contexts.for_local(listener->address()), limits, "the client");
    end.endpoint = listener->accept(end.worker);
    return end;
  }
  /// Waits until `to` has a message, and returns it. Throws what take() throws, and after 20 s.
  Received receive(End& to) {
    std::optional<Received> received;
    const bool came = run_until({client.worker.get(), server.worker.get()}, listener.get(), [&] {
      received = to.worker->take();
      return received.has_value();
    });
    if (!came) throw std::runtime_error("no message came");
    return *std::move(received);
  }
  bool run(const std::function<bool()>& done, int timeout_ms = 20'000) {
    return run_until({client.worker.get(), server.worker.get()}, listener.get(), done, timeout_ms);
  }

  UcxContexts contexts;
  std::unique_ptr<UcxListener> listener;
  End client;
  End server;
};

}  // namespace crossdock::transport::ucx_test
