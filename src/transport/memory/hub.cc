#include <unistd.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/event_fd.h"
#include "crossdock/core/error.h"
#include "transport/internal/handshake.h"
#include "transport/memory.h"
#include "transport/ways.h"

namespace crossdock::transport {
namespace {

/// Clients that wait to be accepted by the listener of one name.
struct ListenQueue {
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
  EventFd event_fd{"the queue of a listener in this process"};
  std::mutex mutex;
  std::deque<std::unique_ptr<Connection>> waiting;
  bool no_place = false;
};

/// The listeners by name.
struct Hub {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<ListenQueue>, std::less<>> listeners;
  std::uint64_t picked = 0;
};

class MemoryListener final : public Listener {
 public:
  MemoryListener(std::shared_ptr<Hub> hub, std::string name, std::shared_ptr<ListenQueue> queue)
      : hub_(std::move(hub)), name_(std::move(name)), queue_(std::move(queue)) {}
  ~MemoryListener() override {
    const std::lock_guard lock(hub_->mutex);
    hub_->listeners.erase(name_);
  }
  MemoryListener(const MemoryListener&) = delete;
  MemoryListener& operator=(const MemoryListener&) = delete;

  std::string uri() const override { return "memory:" + name_; }
  int descriptor() const noexcept override { return queue_->event_fd.get(); }
  std::unique_ptr<Connection> accept() override {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->waiting.empty()) {
      queue_->event_fd.clear();
      return nullptr;
    }
    auto connection = std::move(queue_->waiting.front());
    queue_->waiting.pop_front();
    return connection;
  }
  void reject_all(bool on) override {
    const std::lock_guard lock(queue_->mutex);
    queue_->no_place = on;
  }
  std::size_t handshakes() const noexcept override { return 0; }

 private:
  const std::shared_ptr<Hub> hub_;
  const std::string name_;
  const std::shared_ptr<ListenQueue> queue_;
};

class MemoryTransport final : public Transport {
 public:
  explicit MemoryTransport(const MemoryOptions& options) : options_(options), hub_(std::make_shared<Hub>()) {}
  std::string_view scheme() const noexcept override { return "memory"; }
  Ways ways() const noexcept override { return options_.ways; }
  bool needs_sealed_files() const noexcept override { return false; }
  void check_address(const std::string& /*address*/) const override {}  // any text is one

  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback /*log*/) const override {
    auto queue = std::make_shared<ListenQueue>();
    queue->want_data = want_data;
    queue->free_data = free_data;
    const std::lock_guard lock(hub_->mutex);
    std::string name = address;
    while (name.empty() || (address.empty() && hub_->listeners.contains(name))) name = std::to_string(++hub_->picked);
    if (!hub_->listeners.emplace(name, queue).second) {
      throw ConnectionError("another listener is already at memory:" + name + ": choose another name");
    }
    return std::make_unique<MemoryListener>(hub_, std::move(name), std::move(queue));
  }

  std::unique_ptr<Connection> connect(const std::string& address, const ConnectOptions& wishes, int /*timeout_ms*/,
                                      const InterruptHook& /*interrupted*/) const override {
    std::shared_ptr<ListenQueue> queue;
    {
      const std::lock_guard lock(hub_->mutex);
      const auto found = hub_->listeners.find(address);
      if (found != hub_->listeners.end()) queue = found->second.lock();
    }
    if (!queue) throw ConnectionError("no server listens at memory:" + address + " in this process");
    Agreement agreement;
    agreement.want_data = queue->want_data;
    agreement.free_data = queue->free_data;
    agreement.role = wishes.role;
    agreement.wants_parts = wishes.wants_parts;
    agreement.error_messages = agreement.counted_leases = agreement.cancel = agreement.parameters = true;
    agreement.peer_pid = static_cast<std::uint32_t>(::getpid());
    agreement.peer_uid = static_cast<std::uint32_t>(::geteuid());
    agreement.peer = "the other end of memory:" + address + " in this process";
    MemoryOptions options = options_;
    options.ways = agreed_ways(wishes.ways, options_.ways, "memory:" + address);
    auto [server, client] = memory_pair(agreement, options);
    {
      const std::lock_guard lock(queue->mutex);
      if (queue->no_place) throw ConnectionError("memory:" + address + " rejected the connection: " + kServerFull);
      queue->waiting.push_back(std::move(server));
    }
    queue->event_fd.set();
    return std::move(client);
  }

 private:
  const MemoryOptions options_;
  const std::shared_ptr<Hub> hub_;
};

}  // namespace

std::shared_ptr<const Transport> make_memory_transport(const MemoryOptions& options) {
  return std::make_shared<const MemoryTransport>(options);
}

}  // namespace crossdock::transport
