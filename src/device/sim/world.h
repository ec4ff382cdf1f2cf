#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "clock.h"
#include "crossdock/core/fork.h"
#include "crossdock/device/sim.h"
#include "memory.h"
#include "queue.h"
#include "signal.h"

namespace crossdock::device::sim {

/// Where bytes lie that a copy was given.
struct Place {
  std::byte* bytes = nullptr;  ///< As a queue's thread finds them.
  std::shared_ptr<View> view;  ///< Null for ordinary host memory.
  AccessLog* log = nullptr;
  std::uint64_t offset = 0;  ///< Within the log: of the view's block, or the address.
};

/// The native queues that there are. With a lock of its own: queues end wherever their last owner goes.
class HandleTable {
 public:
  void add(const void* handle) {
    const std::lock_guard lock(mutex_);
    handles_.insert(handle);
  }
  void remove(const void* handle) noexcept {
    const std::lock_guard lock(mutex_);
    handles_.erase(handle);
  }
  bool has(const void* handle) const noexcept {
    const std::lock_guard lock(mutex_);
    return handles_.contains(handle);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<const void*> handles_;
};

/// What the devices of one simulated driver share: memory, clocks, counters, and the failures to come. Thread-safe.
class World : public std::enable_shared_from_this<World> {
 public:
  explicit World(const SimOptions& options) : options_(options) {}

  // Every verb begins with this: counts it, and throws what it is to fail with, or ForkError.
  void enter(SimVerb verb);
  /// Throws NotFoundError for a device that doesn't exist (any more).
  void check_device(const Device& device) const;

  void set_devices(std::uint32_t count);
  void set_delay(std::chrono::nanoseconds delay);
  void set_memory(std::uint64_t bytes);
  std::uint32_t devices() const;
  std::uint64_t devices_version() const noexcept { return devices_version_.load(std::memory_order_acquire); }
  std::uint64_t memory() const;
  void fail_next(SimVerb verb, std::uint64_t after, const Error& error);
  void fail_work(std::uint64_t after, const Error& error, const Timeline* timeline);
  SimCounters counters() const;
  std::vector<std::string> faults() const;
  void forget_faults();
  void reset();

  // Memory

  std::shared_ptr<View> allocate(std::uint64_t size, Device device, MemoryKind kind, bool exportable, WorkQueue& queue);
  /// Maps what another context exported; `key` is the memfd's device and inode.
  std::shared_ptr<View> import(UniqueFd fd, std::uint64_t whole, Device device, MemoryKind kind,
                               const std::string& where);
  /// The owner of a view, for a Buffer.
  std::shared_ptr<void> own(std::shared_ptr<View> view);
  /// The allocation that this address lies in, or null.
  std::shared_ptr<View> find(const void* pointer) const;
  /// Throws InvalidArgumentError if the driver has no such memory. `what` is its role.
  void check_memory(const BufferRef& memory, const Device& device, const char* what) const;

  // Work

  std::shared_ptr<WorkQueue> make_queue(const Device& device);
  void copy(const BufferRef& to, const BufferRef& from, const Device& device, WorkQueue& queue);
  void free(Buffer&& buffer, WorkQueue& queue);
  /// On the queue's thread: what free() put there.
  void free_now(FreeWork& work) noexcept;
  void record(const Event& event, Signal& signal, WorkQueue& queue);
  void order_after(WorkQueue& queue, const Event& event, Signal& signal);
  /// After an event of another library, which may stand for any of our work that was recorded.
  void order_after_other(WorkQueue& queue, const Event& event, crossdock_sim_event* other);
  /// The host has waited for such an event.
  void see_other();

  HandleTable& handles() noexcept { return handles_; }
  const HandleTable& handles() const noexcept { return handles_; }

  bool query(Signal& signal);
  void wait(Signal& signal);
  /// What a complete event carries is thrown now.
  void deliver(Point& point);

 private:
  struct Injected {
    std::uint64_t after;
    std::shared_ptr<const Error> error;
    const Timeline* timeline;  // null: of any queue
  };
  struct Owner;
  using Inode = std::pair<std::uint64_t, std::uint64_t>;

  std::shared_ptr<View> add_view(std::shared_ptr<Block> block, std::uint64_t size, Device device, MemoryKind kind);
  void drop(View& view) noexcept;
  /// A share of this memory goes after `clock`: the memory itself can't go before. For who holds the lock.
  void keep(const BufferRef& memory, const Clock& clock);
  void check_room(std::uint64_t size, const Device& device) const;
  // For who holds the lock:
  std::shared_ptr<View> find_locked(const void* pointer) const;
  Place resolve(const BufferRef& memory, const char* what) const;
  std::shared_ptr<const Error> fault(const std::string& text);
  std::shared_ptr<const Error> check_order(const Access& next, const AccessLog& log, const WorkQueue& queue);
  std::shared_ptr<const Error> injected_work(const WorkQueue& queue);
  void protect(const Block& block);
  void see(Point& point);
  void see_more();
  std::chrono::steady_clock::time_point due() const;
  Clock everything();

  const ForkGuard made_in_;
  mutable std::mutex mutex_;
  SimOptions options_;
  std::atomic<std::uint64_t> devices_version_{0};
  SimCounters counters_;
  std::array<std::vector<Injected>, kSimVerbs> verb_failures_;
  std::vector<Injected> work_failures_;
  std::vector<std::string> faults_;
  std::map<std::uintptr_t, std::weak_ptr<View>> views_;
  std::map<std::int64_t, std::uint64_t> used_;  // bytes of each device
  std::map<Inode, std::weak_ptr<Block>> shared_;
  std::vector<std::weak_ptr<View>> protected_;
  mutable AccessLog host_log_;
  std::vector<std::weak_ptr<Timeline>> timelines_;
  std::uint64_t queues_made_ = 0;
  HandleTable handles_;
  std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
  std::shared_ptr<Quarantine> quarantine_ = std::make_shared<Quarantine>();
};

/// What is ordered before what the calling thread releases now, for a queue; null elsewhere.
std::shared_ptr<const Clock> release_clock() noexcept;
/// Sets that. Returns what it was before.
const Clock* set_release_clock(const Clock* clock) noexcept;

/// Completes an event with what went wrong in its queue's work.
void complete(Event& event, Point& point) noexcept;
/// The failure that an event of another library told of.
std::shared_ptr<const Error> failure_of(crossdock_sim_event& event, std::int32_t status) noexcept;

}  // namespace crossdock::device::sim
