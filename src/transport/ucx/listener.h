#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "endpoint.h"
#include "transport/internal/socket_address.h"
#include "worker_handle.h"

namespace crossdock::transport::ucx {

/// Listens for clients, with a worker of its own. Use it from one thread at a time. In a forked child, the destructor
/// leaves UCX's objects alone, and all other calls throw ForkError.
class UcxListener {
 public:
  static constexpr std::size_t kMaxRequests = 64;  ///< Clients that wait at once; more are rejected.

  /// Listens at an address of this machine; port 0: one that is free. Throws ConnectionError if another process listens
  /// there, or the machine has no such address; UnsupportedError for IPv6 with a UCX before 1.22, whose listeners get
  /// no requests there; and what UCX's calls throw.
  UcxListener(std::shared_ptr<const UcxContext> context, const SocketAddress& address);
  UcxListener(const UcxListener&) = delete;
  UcxListener& operator=(const UcxListener&) = delete;
  /// Stops listening, and rejects the clients that wait. The port may be used again at once.
  ~UcxListener();

  /// The address that it listens at, with the port that the system picked.
  const SocketAddress& address() const noexcept { return address_; }
  /// "ucx://127.0.0.1:7700".
  std::string uri() const { return to_uri("ucx", address_); }

  /// Receives clients' requests. Does a bounded amount of work.
  void progress();
  /// The number of clients that wait. They are accepted or rejected in the order in which they came.
  std::size_t requests() const noexcept { return requests_.size(); }
  /// Returns the address of the first client. There must be one.
  SocketAddress client() const;
  /// Accepts the first client, for which `worker` was made. There must be one. Throws ConnectionError if it is gone.
  std::unique_ptr<Endpoint> accept(std::shared_ptr<Worker> worker);
  /// Rejects the first client. There must be one.
  void reject();

  /// Makes descriptor() readable when there is something to do. Returns false if there is already: call progress().
  bool arm();
  int descriptor() const noexcept { return worker_.descriptor(); }

 private:
  ucp_conn_request_h take();

  WorkerHandle worker_;
  ucp_listener_h listener_ = nullptr;
  SocketAddress address_;
  std::deque<ucp_conn_request_h> requests_;
};

/// Listens at "//host:port" (parse_address()), at the first address of the host at which this succeeds. Without a host:
/// 127.0.0.1; "*": every IPv4 address. Throws UriError, ConnectionError, and as
/// UcxContexts::for_local() and UcxListener() do.
std::unique_ptr<UcxListener> listen_at(UcxContexts& contexts, const std::string& address);

}  // namespace crossdock::transport::ucx
