#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "crossdock/session/runtime.h"
#include "peers/link.h"
#include "transport/memory.h"

namespace crossdock::testing {

/// What a link needs of its hub, without threads: tasks for copy threads wait until run_copies() is called.
class PeerHub {
 public:
  explicit PeerHub(const device::PoolOptions& pool_options = {}) : pool(runtime->make_pool(pool_options)) {
    services = std::make_shared<peers::LinkServices>(
        peers::LinkServices{std::make_shared<session::Waker>(),
                            [tasks = tasks_](std::function<void()> task) { tasks->push_back(std::move(task)); },
                            peers::FrameSharer(runtime, pool)});
  }
  void run_copies() const {
    while (!tasks_->empty()) {
      const std::function<void()> task = std::move(tasks_->front());
      tasks_->pop_front();
      task();
    }
  }
  std::shared_ptr<peers::Link> link(std::unique_ptr<transport::Connection> connection,
                                    const peers::PeerOptions& options) const {
    return std::make_shared<peers::Link>(std::move(connection), options, services);
  }

  const std::shared_ptr<session::Runtime> runtime = std::make_shared<session::Runtime>();
  const std::shared_ptr<device::Pool> pool;
  std::shared_ptr<peers::LinkServices> services;

 private:
  std::shared_ptr<std::deque<std::function<void()>>> tasks_ = std::make_shared<std::deque<std::function<void()>>>();
};

/// Two ends of a connection inside this process.
inline std::pair<std::unique_ptr<transport::Connection>, std::unique_ptr<transport::Connection>> peer_connections(
    std::size_t queue_messages, transport::Ways ways = transport::Way::kMap | transport::Way::kMessage) {
  transport::Agreement agreement;
  agreement.role = ChannelRole::kMessages;
  agreement.peer = "the other end";
  return transport::memory_pair(agreement, {.queue_messages = queue_messages, .ways = ways});
}

}  // namespace crossdock::testing
