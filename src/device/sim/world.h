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
#include "core/fork.h"
#include "device/sim.h"
#include "memory.h"
#include "queue.h"
#include "signal.h"

namespace crossdock::device::sim {

/// The place of the bytes that a copy was given.
struct Place {
  std::byte* bytes = nullptr;  ///< The address that a queue's thread uses.
  std::shared_ptr<View> view;  ///< Null for ordinary host memory.
  AccessLog* log = nullptr;
  std::uint64_t offset = 0;  ///< Position in the log: the offset in the view's block, or the address.
};

/// The native queues that exist. It has a lock of its own, since a queue ends wherever its last owner is dropped.
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

/// The state that all devices of one simulated driver share: memory, clocks, counters, and injected failures that are
/// still to come. Thread-safe.
class World : public std::enable_shared_from_this<World> {
 public:
  explicit World(const SimOptions& options) : options_(options) {}

  /// Counts a call of `verb`; every verb begins with this. Throws the failure that was injected for this call, or
  /// ForkError.
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
  /// Maps memory that another context exported. Blocks that are known already are found by the memfd's device and
  /// inode.
  std::shared_ptr<View> import(UniqueFd fd, std::uint64_t whole, Device device, MemoryKind kind,
                               const std::string& where);
  /// Returns the owner of a view, for a Buffer.
  std::shared_ptr<void> own(std::shared_ptr<View> view);
  /// Returns the allocation that this address lies in, or null.
  std::shared_ptr<View> find(const void* pointer) const;
  /// Throws InvalidArgumentError if the driver has no such memory. `what` names the role of the memory in the error.
  void check_memory(const BufferRef& memory, const Device& device, const char* what) const;

  // Work

  std::shared_ptr<WorkQueue> make_queue(const Device& device);
  void copy(const BufferRef& to, const BufferRef& from, const Device& device, WorkQueue& queue);
  void free(Buffer&& buffer, WorkQueue& queue);
  /// Frees the memory that free() put on a queue. Called on the queue's thread.
  void free_now(FreeWork& work) noexcept;
  void record(const Event& event, Signal& signal, WorkQueue& queue);
  void order_after(WorkQueue& queue, const Event& event, Signal& signal);
  /// Orders `queue` after an event of another library. The event may stand for any recorded work of this driver.
  void order_after_other(WorkQueue& queue, const Event& event, crossdock_sim_event* other);
  /// Notes that the host has waited for an event of another library.
  void see_other();

  HandleTable& handles() noexcept { return handles_; }
  const HandleTable& handles() const noexcept { return handles_; }

  bool query(Signal& signal);
  void wait(Signal& signal);
  /// Throws the failure that a complete event carries, if there is one, and notes that it was thrown.
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
  /// Orders a later free of these allocations after `clock`: work on a queue holds an owner of the memory until then.
  /// Call it with the lock held.
  void delay_free(const BufferRef& memory, const Clock& clock);
  void check_room(std::uint64_t size, const Device& device) const;
  /// Notes that the host knows a complete event, then throws like deliver().
  void see(Point& point);
  // Call the next ones with the lock held.
  std::shared_ptr<View> find_locked(const void* pointer) const;
  Place resolve(const BufferRef& memory, const char* what) const;
  std::shared_ptr<const Error> fault(const std::string& text);
  std::shared_ptr<const Error> check_order(const Access& next, const AccessLog& log, const WorkQueue& queue);
  std::shared_ptr<const Error> injected_work(const WorkQueue& queue);
  void protect(const Block& block);
  /// Forgets host accesses that are done, and gives the host access again to pages without pending work.
  void restore_host_access();
  std::chrono::steady_clock::time_point due() const;
  Clock clock_of_all_queues();

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

/// Returns the clock of the work that is ordered before the release that the calling thread performs now for a queue;
/// null if it performs none.
std::shared_ptr<const Clock> release_clock() noexcept;
/// Sets that clock. Returns the previous one.
const Clock* set_release_clock(const Clock* clock) noexcept;

/// Completes an event, with the failure of its queue's work if there is one.
void complete(Event& event, Point& point) noexcept;
/// Returns the failure that an event of another library reported.
std::shared_ptr<const Error> failure_of(crossdock_sim_event& event, std::int32_t status) noexcept;

}  // namespace crossdock::device::sim
