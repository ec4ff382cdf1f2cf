#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/server.h"
#include "session/file_leases.h"
#include "session/server_connection.h"
#include "session/shelf.h"

namespace crossdock::session {

/// A server's one I/O thread: accepts, gives each connection its turn, and sleeps when there is nothing to do.
class IoLoop {
 public:
  /// Listens when it returns.
  IoLoop(const ServerOptions& options, const transport::TransportRegistry& transports, Shelf& shelf);
  ~IoLoop();

  const std::vector<std::string>& uris() const noexcept { return uris_; }
  const std::vector<std::string>& locations() const noexcept { return locations_; }
  /// Asked of the I/O thread, so that nothing on its hot path needs a lock.
  ServerStats stats();
  /// Takes read leases on the table's files where the system grants them. Waits for the I/O thread. Best effort, and
  /// never throws: without a lease it is the file's size and times that tell of a change.
  void watch(const std::shared_ptr<const PublishedTable>& table) noexcept;
  /// Ends all connections, stops listening, joins the thread. Idempotent, thread-safe.
  void close();

 private:
  void run() noexcept;
  bool turn();
  bool full() const noexcept;
  bool accept_new();
  bool accept_at(transport::Listener& listener);
  void sleep() noexcept;
  ServerStats collect_stats();
  void run_commands();
  bool post(std::function<void()> command);
  std::int64_t next_deadline_ms() const;

  const ServerOptions& options_;
  Shelf& shelf_;
  const ClosedError closed_{"the server was closed"};  // made while there is memory: the end must not need any
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::vector<std::string> uris_;
  std::vector<std::string> locations_;  // the same, with want_data and free_data
  std::optional<FileLeases> leases_;    // made by the I/O thread, which is who hears of breaks
  std::vector<std::unique_ptr<ServerConnection>> connections_;
  std::uint64_t n_connections_ = 0;
  std::uint64_t n_protocol_errors_ = 0;

  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;
  bool closing_ = false;
  std::mutex close_mutex_;
  std::thread thread_;
};

}  // namespace crossdock::session
