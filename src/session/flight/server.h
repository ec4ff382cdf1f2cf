#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "crossdock/session/server.h"
#include "flight/service.h"
#include "session/flight/call_threads.h"
#include "session/flight/carrier_library.h"
#include "session/flight/offers.h"
#include "session/flight/puts.h"
#include "session/flight/refusals.h"
#include "transport/transport.h"

namespace crossdock::session {

class GetQueue;

/// The Flight server of a Server. Its calls are answered on the carrier's threads; calls of DoGet go to the server's
/// I/O thread, as connections of listener(). Thread-safe.
class FlightServer {
 public:
  /// Throws SchemeError (no module), UriError, InvalidArgumentError. Loads the module.
  static void check(const FlightOptions& options);
  /// `directory` and what `publish` uses outlive it. check() has seen the options.
  FlightServer(const ServerOptions& options, flight::Access access, const flight::Directory& directory,
               Puts::Publish publish);
  ~FlightServer();
  FlightServer(const FlightServer&) = delete;
  FlightServer& operator=(const FlightServer&) = delete;

  /// Returns where the calls of DoGet arrive. Call it once.
  std::unique_ptr<transport::Listener> listener() const;
  /// Listens. `locations`: URIs of the data plane. `own_location`: see flight::Service. Throws ConnectionError.
  void start(std::vector<std::string> locations, flight::Service::OwnLocation own_location);
  /// The URI to connect to, after start().
  const std::string& uri() const noexcept { return uri_; }
  /// Stops listening, ends all calls, and waits for the threads that serve them. Idempotent. Never on a thread of the
  /// carrier, nor on one of those.
  void stop() noexcept;
  /// Whether this is a thread that checks logins.
  bool checks_login() const noexcept { return logins_.on_its_thread(); }

 private:
  static void* begin(void* self, xd_call* call, const xd_caller* caller, xd_call_events* events);

  const std::shared_ptr<const CarrierLibrary> carrier_;
  const std::shared_ptr<const void> log_;
  const ServerOptions& options_;
  const flight::Access access_;
  const flight::Directory& directory_;
  const bool encrypted_;
  const std::shared_ptr<GetQueue> queue_;
  Puts puts_;
  Offers offers_;
  std::unique_ptr<const flight::Service> service_;
  std::string uri_;
  std::mutex stopping_;
  xd_server* server_ = nullptr;
  Refusals refusals_;
  CallThreads logins_{16, "checking logins"};  // use service_
};

}  // namespace crossdock::session
