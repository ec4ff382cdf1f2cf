#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "flight/messages.h"
#include "session/flight/answer_call.h"
#include "session/flight/call_threads.h"
#include "session/flight/puts.h"

namespace crossdock::session {

/// The tables that clients offer to a Flight server: it fetches them over the data plane, each once, from a listener of
/// the client's that knows the ticket which the server has made for it. Thread-safe.
class Offers {
 public:
  /// `directory` knows which names are taken, and outlives this.
  Offers(const ServerOptions& options, const flight::Directory& directory, Puts::Publish publish)
      : options_(options), directory_(directory), publish_(std::move(publish)) {}

  /// What the server says of the actions by which clients offer tables; none if it takes none.
  std::vector<flight::ActionType> actions() const;
  /// Takes an offer of `peer`, a text of gRPC's. Returns the ticket under which the client has to serve the table.
  /// Throws UnsupportedError (the server takes no tables), InvalidArgumentError (the name is wrong, or taken: before
  /// the client makes its table), ResourceError.
  std::string take(const std::string& peer, const flight::Offer& offer);
  /// Fetches an offered table on a thread of its own, publishes it, and answers `call`. Throws PermissionError (a
  /// ticket that this server didn't make, or that was used; another client than the one that has offered),
  /// ResourceError.
  void fetch(const std::shared_ptr<AnswerCall>& call, const std::string& peer, flight::FetchOffer request);
  /// Waits for all. Their calls must have ended.
  void wait() noexcept { threads_.wait(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    std::string name;
    std::string host;  // of the client
    bool only_new = false;
    Clock::time_point until;
  };
  void drop_old();
  std::unique_ptr<Reader> read(const flight::FetchOffer& request, const std::string& host,
                               const transport::InterruptHook& over) const;
  void publish(const std::shared_ptr<AnswerCall>& call, const std::string& peer, const Open& offer,
               const flight::FetchOffer& request) const;

  const ServerOptions& options_;
  const flight::Directory& directory_;
  const Puts::Publish publish_;
  std::mutex mutex_;
  std::map<std::string, Open, std::less<>> open_;  // by ticket
  CallThreads threads_{16, "fetching tables"};
};

}  // namespace crossdock::session
