#include "session/client_pool.h"

#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::session {

ClientPool::ClientPool(std::string address, std::string where, ClientOptions options)
    : address_(std::move(address)), where_(std::move(where)), options_(std::move(options)) {}

std::shared_ptr<ClientConnection> ClientPool::take(const transport::InterruptHook& interrupted) {
  while (true) {
    std::shared_ptr<ClientConnection> connection;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) throw ClosedError("this client of " + where_ + " was closed");
      if (idle_.empty()) break;
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
    // The server may have been closed meanwhile, and another be there in its place.
    if (connection->still_good()) return connection;
  }
  return std::make_shared<ClientConnection>(
      transport::shm_connect(address_, options_.shm, options_.timeout_ms, interrupted), where_);
}

void ClientPool::put_back(std::shared_ptr<ClientConnection> connection) {
  const std::lock_guard lock(mutex_);
  if (!closed_) idle_.push_back(std::move(connection));
}

void ClientPool::close() {
  std::vector<std::shared_ptr<ClientConnection>> dropped;  // closed without the lock
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(idle_);
}

}  // namespace crossdock::session
