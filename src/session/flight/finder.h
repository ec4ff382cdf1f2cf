#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "crossdock/session/client.h"
#include "flight/messages.h"
#include "session/client_pool.h"
#include "session/flight/channel.h"

namespace crossdock::session {

/// A client's side of discovery by Flight: asks a server where a table is, and reads it from the best location that can
/// be reached. Keeps the connections to locations. Thread-safe.
class FlightFinder {
 public:
  /// `pool`: of DoGet at the server. `options` have transports.
  FlightFinder(std::shared_ptr<FlightChannel> channel, std::shared_ptr<ClientPool> pool, ClientOptions options);

  /// Throws unless the server answers: ConnectionError, PermissionError, TimeoutError, InterruptedError.
  void check(const transport::InterruptHook& interrupted);
  std::vector<CatalogEntry> list(const ListOptions& limits, const transport::InterruptHook& interrupted);
  /// What a stream needs of its connection, as ClientPool::for_streams() takes it.
  struct Needs {
    bool parts = false;
    std::shared_ptr<device::Context> device{};
    bool copy_on_write = false;
  };
  /// Requests a stream by connections of a pool, with a ticket. Throws as Reader::Impl.
  using Request = std::function<void(const std::shared_ptr<ClientPool>& pool, const std::string& ticket)>;
  /// Calls `request` for one location after the other, until a call returns. Returns what came of the locations before.
  /// Throws as Client::get().
  std::vector<LocationTried> find(const std::string& name, const Needs& needs, const Request& request,
                                  const transport::InterruptHook& interrupted);
  /// As Client::put().
  void put(const std::string& name, array::BatchStream& source, bool replace, const exchange::WaitFunction& wait,
           const transport::InterruptHook& interrupted);
  /// As Client::offer().
  void offer(const std::string& name, std::unique_ptr<array::BatchStream> source, bool replace,
             const exchange::WaitFunction& wait, const transport::InterruptHook& interrupted);
  bool drop_ended();
  void close();

 private:
  void check_open() const;
  flight::FlightEndpoint endpoint_of(const std::string& name, const transport::InterruptHook& interrupted);
  std::vector<LocationTried> read_from(const flight::FlightEndpoint& endpoint, const Needs& needs,
                                       const Request& request, const transport::InterruptHook& interrupted);
  std::shared_ptr<ClientPool> pool_at(const std::string& location);
  std::vector<std::shared_ptr<ClientPool>> pools();

  const std::shared_ptr<FlightChannel> channel_;
  const std::shared_ptr<ClientPool> do_get_;
  const ClientOptions options_;
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ClientPool>, std::less<>> pools_;  // by location
};

}  // namespace crossdock::session
