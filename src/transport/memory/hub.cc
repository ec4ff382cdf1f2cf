#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "../accepting.h"
#include "crossdock/core/error.h"
#include "crossdock/core/unique_fd.h"
#include "crossdock/transport/memory.h"

namespace crossdock::transport {
namespace {

/// Clients that wait to be accepted under one name.
struct Door {
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
  UniqueFd bell;
  std::mutex mutex;
  std::deque<std::unique_ptr<Connection>> waiting;
  bool no_place = false;
};

/// Who listens, by name.
struct Hub {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Door>, std::less<>> doors;
  std::uint64_t picked = 0;
};

class MemoryListener final : public Listener {
 public:
  MemoryListener(std::shared_ptr<Hub> hub, std::string name, std::shared_ptr<Door> door)
      : hub_(std::move(hub)), name_(std::move(name)), door_(std::move(door)) {}
  ~MemoryListener() override {
    const std::lock_guard lock(hub_->mutex);
    hub_->doors.erase(name_);
  }
  MemoryListener(const MemoryListener&) = delete;
  MemoryListener& operator=(const MemoryListener&) = delete;

  std::string uri() const override { return "memory:" + name_; }
  int descriptor() const noexcept override { return door_->bell.get(); }
  std::unique_ptr<Connection> accept() override {
    const std::lock_guard lock(door_->mutex);
    if (door_->waiting.empty()) {
      std::uint64_t rings = 0;
      // EAGAIN only says that nobody rang.
      [[maybe_unused]] const ssize_t got = ::read(door_->bell.get(), &rings, sizeof rings);
      return nullptr;
    }
    auto connection = std::move(door_->waiting.front());
    door_->waiting.pop_front();
    return connection;
  }
  void reject_all(bool on) override {
    const std::lock_guard lock(door_->mutex);
    door_->no_place = on;
  }
  std::size_t handshakes() const noexcept override { return 0; }

 private:
  const std::shared_ptr<Hub> hub_;
  const std::string name_;
  const std::shared_ptr<Door> door_;
};

class MemoryTransport final : public Transport {
 public:
  explicit MemoryTransport(const MemoryOptions& options) : options_(options), hub_(std::make_shared<Hub>()) {}
  std::string_view scheme() const noexcept override { return "memory"; }
  bool shares_with_others() const noexcept override { return false; }

  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback /*log*/) const override {
    auto door = std::make_shared<Door>();
    door->want_data = want_data;
    door->free_data = free_data;
    door->bell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!door->bell) throw_errno(errno, "making the door bell of memory:" + address);
    const std::lock_guard lock(hub_->mutex);
    std::string name = address;
    while (name.empty() || (address.empty() && hub_->doors.contains(name))) name = std::to_string(++hub_->picked);
    if (!hub_->doors.emplace(name, door).second) {
      throw ConnectionError("somebody listens at memory:" + name + " already: choose another name");
    }
    return std::make_unique<MemoryListener>(hub_, std::move(name), std::move(door));
  }

  std::unique_ptr<Connection> connect(const std::string& address, ChannelRole role, int /*timeout_ms*/,
                                      const InterruptHook& /*interrupted*/) const override {
    std::shared_ptr<Door> door;
    {
      const std::lock_guard lock(hub_->mutex);
      const auto found = hub_->doors.find(address);
      if (found != hub_->doors.end()) door = found->second.lock();
    }
    if (!door) throw NotFoundError("nobody listens at memory:" + address + " in this process");
    Agreement agreement;
    agreement.want_data = door->want_data;
    agreement.free_data = door->free_data;
    agreement.role = role;
    agreement.error_messages = agreement.counted_leases = agreement.cancel = true;
    agreement.peer_pid = static_cast<std::uint32_t>(::getpid());
    agreement.peer_uid = static_cast<std::uint32_t>(::geteuid());
    agreement.peer = "the other end of memory:" + address + " in this process";
    auto [server, client] = memory_pair(agreement, options_);
    {
      const std::lock_guard lock(door->mutex);
      if (door->no_place) throw ConnectionError("memory:" + address + " rejected the connection: " + kServerFull);
      door->waiting.push_back(std::move(server));
    }
    const std::uint64_t one = 1;
    // EAGAIN says that the count is full: then the bell rings anyway.
    [[maybe_unused]] const ssize_t written = ::write(door->bell.get(), &one, sizeof one);
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
